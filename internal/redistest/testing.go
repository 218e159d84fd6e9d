package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Start starts a server for one test: options are arguments of redis-server, see [Run]. The server ends with the test,
// and the test fails if the server ended before that although nobody stopped it.
func Start(t testing.TB, opts ...string) *Server {
	t.Helper()
	return start(t, spec{}, opts)
}

// StartUser is [Start] for a server whose only user (beside an administrator of this package) is name. rules are ACL
// rules; nil means everything. URL shows the user and the password.
func StartUser(t testing.TB, name, password string, rules []string, opts ...string) *Server {
	t.Helper()
	if rules == nil {
		rules = []string{"~*", "&*", "+@all"}
	}
	user := append([]string{"--user", name, "on", ">" + password}, rules...)
	opts = append(append(user, "--user", "default", "off"), opts...)
	return start(t, spec{user: name, password: password}, opts)
}

func start(t testing.TB, want spec, opts []string) *Server {
	t.Helper()
	if err := ensureServer(); err != nil {
		t.Fatal(err)
	}
	want.dir = t.TempDir()
	s, err := run(t.Context(), want, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.died(), s.Kill()); err != nil {
			t.Error(err)
		}
	})
	return s
}

var shared struct {
	sync.Mutex
	main    bool // whether Main runs
	dirs    []string
	server  *Server
	cluster *Cluster
}

// Main runs the tests of a binary that uses [Shared] or [SharedCluster], ends their servers and exits:
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
func Main(m *testing.M) {
	shared.Lock()
	shared.main = true
	shared.Unlock()
	code := m.Run()
	if err := endShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Shared is one server for all tests of a binary, started by the first that asks and ended by [Main]. Its users keep
// apart by namespaces and must not stop it, flush it or change its configuration.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		if err := shared.server.died(); err != nil {
			t.Fatal(err)
		}
		return shared.server
	}
	dir := sharedDir(t)
	s, err := Run(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	shared.server = s
	return s
}

// SharedCluster is [Shared] for a cluster of three masters; a test that moves a slot moves it back.
func SharedCluster(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster != nil {
		if err := shared.cluster.died(); err != nil {
			t.Fatal(err)
		}
		return shared.cluster
	}
	dirs := [clusterSize]string{}
	for i := range dirs {
		dirs[i] = sharedDir(t)
	}
	c, err := RunCluster(context.Background(), dirs)
	if err != nil {
		t.Fatal(err)
	}
	shared.cluster = c
	return c
}

// sharedDir makes a folder that lives until the end of Main. The caller holds the lock.
func sharedDir(t testing.TB) string {
	t.Helper()
	if !shared.main {
		t.Fatal("redistest: a shared server needs func TestMain(m *testing.M) { redistest.Main(m) }")
	}
	if err := ensureServer(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "twolane-redis-")
	if err != nil {
		t.Fatal(err)
	}
	shared.dirs = append(shared.dirs, dir)
	return dir
}

func endShared() error {
	shared.Lock()
	defer shared.Unlock()
	var errs []error
	if shared.server != nil {
		errs = append(errs, shared.server.died(), shared.server.Kill())
	}
	if shared.cluster != nil {
		errs = append(errs, shared.cluster.died(), shared.cluster.Kill())
	}
	for _, dir := range shared.dirs {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}
