// Package redistest runs real Redis servers for the tests and the benchmark of this module.
//
// A server listens on a free port of the loopback interface, keeps its files in a folder of its own and dies with the
// process that started it, also when that process is killed (on Linux). Nothing here touches a server that it did not
// start: after a start the answering process must be the child that was started.
//
//	srv := redistest.Start(t, "--appendonly", "yes")   // one server for one test
//	srv := redistest.Shared(t)                         // one server for a test binary, see [Main]
//	cl := redistest.StartCluster(t)                    // three masters, real bus, slots can be moved by hand
//	set := redistest.StartSentinel(t, 3)               // master, replica, sentinels
//	srv := redistest.StartTLS(t)                       // TLS only, certificates made on the spot
//	srv := redistest.StartUser(t, "ann", "secret", nil) // an ACL user, no default user
//	srv, err := redistest.Run(ctx, dir)                // outside of tests
//
// The program is redis-server from PATH; the environment variable TWOLANE_REDIS_SERVER names another one, for example
// valkey-server. In tests a missing redis-server is installed with apt-get when the user is root, else the test fails
// and says what to type. Readiness is seen by a command that is answered, never by the time that has passed.
package redistest
