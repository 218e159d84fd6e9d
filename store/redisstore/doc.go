// Package redisstore keeps commands in Redis 7 or newer, or Valkey: standalone, with Sentinel, or in a cluster.
//
// Every step is one Lua script, so record, place, lease, indexes and counters of a command change together. All keys of a namespace share
// one hash tag (see keys.go); more namespaces are the unit of scale. A command is one packed string (see record.go) with its params in
// it; what leases it is one entry of a hash and one of a sorted set. Steps are variadic: a claim or a settle of a hundred commands is about
// a dozen Redis commands. Commands stand in lines (see line.go), and claims look at heads of lines only.
//
// A script is isolated but not atomic when it fails half-way. So every script declares a guard pair as its keys: {ns}:meta, which always
// exists, and {ns}:none, which never does. While the slot moves between nodes of a cluster the server then refuses the script (TRYAGAIN, ASK)
// before its first line. Scripts read and decide first and write last; only Submit is refused when memory is full.
//
// Limits are kept in the same steps (see script/lim). Who is a member is said by the lease, or by the record while there is none; beside it each
// key has the set of its members and their sum. A line that a limit stops is filed under the key and leaves the sight of claims: a claim
// looks at open lines only, and what waits costs one re-test a second for each line, however many commands stand in it. A namespace without
// limits runs none of that: one field of the meta hash says so.
//
// What an acknowledgement means is up to the server: without persistence a restart forgets everything, with appendonly everysec a crash
// may forget the last second, and replication is asynchronous: a fail-over may forget what was acknowledged last. [Store.Describe] reads these
// settings and says so. A lease name is never reused, so what was forgotten can run again but a stale owner writes nothing.
package redisstore
