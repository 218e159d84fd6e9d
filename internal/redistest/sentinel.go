package redistest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// MasterName is the name under which sentinels know their master.
const MasterName = "twolane"

// Sentinel is a master, a replica and the sentinels that watch them. Who is master changes: ask [Sentinel.Master].
type Sentinel struct {
	data      [2]*Server
	sentinels []*Server
}

// StartSentinel starts a master, its replica and n sentinels for one test; options go to master and replica. The first
// sentinel takes a master for down that does not answer for half a second, each other one half a second later: sentinels
// that find out together vote for themselves and start again after many seconds. A fail-over needs the votes of a
// majority. StartSentinel returns when one would work.
func StartSentinel(t testing.TB, n int, opts ...string) *Sentinel {
	t.Helper()
	s := &Sentinel{}
	// By default a master waits five seconds for more replicas before it sends its data.
	opts = append([]string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}, opts...)
	s.data[0] = Start(t, opts...)
	s.data[1] = Start(t, append([]string{"--replicaof", "127.0.0.1", strconv.Itoa(s.data[0].port)}, opts...)...)
	for i := range n {
		s.sentinels = append(s.sentinels, startSentinel(t, s.data[0].port, time.Duration(i+1)*500*time.Millisecond))
	}
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func startSentinel(t testing.TB, master int, downAfter time.Duration) *Server {
	t.Helper()
	dir := t.TempDir()
	bin, err := findServer()
	if err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "sentinel.conf") // sentinels rewrite it
	text := fmt.Sprintf(`port %d
bind 127.0.0.1
dir %s
sentinel monitor %[3]s 127.0.0.1 %[4]d 1
sentinel down-after-milliseconds %[3]s %[5]d
sentinel failover-timeout %[3]s 2000
`, port, dir, MasterName, master, downAfter.Milliseconds())
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Server{spec: spec{dir: dir}, bin: bin, port: port, args: []string{conf, "--sentinel"}}
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.died(), s.Kill()); err != nil {
			t.Error(err)
		}
	})
	// Look every tenth of a second instead of every ten seconds; the ping period stays, because the age at which news of
	// a replica is too old to promote it follows from it. A restarted sentinel is back at its slow self.
	if _, err := s.Do(t.Context(), "SENTINEL", "DEBUG", "INFO-PERIOD", "100", "ASK-PERIOD", "100", "PUBLISH-PERIOD", "100"); err != nil {
		t.Fatal(err)
	}
	return s
}

// Addrs is the addresses of the sentinels.
func (s *Sentinel) Addrs() []string {
	var addrs []string
	for _, n := range s.sentinels {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// URL is redis://first?addr=second&master_set=twolane, the form that the client library reads.
func (s *Sentinel) URL() string {
	addrs := s.Addrs()
	q := url.Values{"master_set": {MasterName}}
	if len(addrs) > 1 {
		q["addr"] = addrs[1:]
	}
	u := url.URL{Scheme: "redis", Host: addrs[0], RawQuery: q.Encode()}
	return u.String()
}

// Sentinels is the sentinel processes.
func (s *Sentinel) Sentinels() []*Server { return s.sentinels }

// Master is the server that the first sentinel names as master now.
func (s *Sentinel) Master(ctx context.Context) (*Server, error) {
	msg, err := s.sentinels[0].Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
	if err != nil {
		return nil, err
	}
	addr, err := msg.AsStrSlice()
	if err != nil {
		return nil, err
	}
	for _, d := range s.data {
		if len(addr) == 2 && addr[1] == strconv.Itoa(d.port) {
			return d, nil
		}
	}
	return nil, fmt.Errorf("redistest: the sentinel names an unknown master %q", addr)
}

// Other is the data server that is not srv.
func (s *Sentinel) Other(srv *Server) *Server {
	if s.data[0] == srv {
		return s.data[1]
	}
	return s.data[0]
}

// WaitReady waits until both data servers are linked as master and replica and every sentinel knows them, knows the
// other sentinels, and could fail over.
func (s *Sentinel) WaitReady(ctx context.Context) error {
	return until(ctx, "sentinels", func(ctx context.Context) error {
		master, err := s.Master(ctx)
		if err != nil {
			return err
		}
		if err := wantInfo(ctx, master, map[string]string{"role": "master", "connected_slaves": "1"}); err != nil {
			return err
		}
		replica := map[string]string{"role": "slave", "master_link_status": "up", "master_port": strconv.Itoa(master.port)}
		if err := wantInfo(ctx, s.Other(master), replica); err != nil {
			return err
		}
		for _, n := range s.sentinels {
			if _, err := n.Do(ctx, "SENTINEL", "CKQUORUM", MasterName); err != nil {
				return err
			}
			msg, err := n.Do(ctx, "SENTINEL", "MASTER", MasterName)
			if err != nil {
				return err
			}
			m, err := msg.AsStrMap()
			if err != nil {
				return err
			}
			if m["flags"] != "master" || m["num-slaves"] != "1" || m["port"] != strconv.Itoa(master.port) ||
				m["num-other-sentinels"] != strconv.Itoa(len(s.sentinels)-1) {
				return fmt.Errorf("sentinel %s sees %v", n.Addr(), m)
			}
			if err := wantReplica(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// wantReplica checks that a sentinel would promote the replica: it is up and its link to the master was seen working.
func wantReplica(ctx context.Context, sentinel *Server) error {
	msg, err := sentinel.Do(ctx, "SENTINEL", "REPLICAS", MasterName)
	if err != nil {
		return err
	}
	list, err := msg.ToArray()
	if err != nil {
		return err
	}
	for _, r := range list {
		m, err := r.AsStrMap()
		if err != nil {
			return err
		}
		if m["flags"] == "slave" && m["master-link-status"] == "ok" {
			return nil
		}
	}
	return fmt.Errorf("sentinel %s has no replica to promote", sentinel.Addr())
}

func wantInfo(ctx context.Context, srv *Server, want map[string]string) error {
	info, err := srv.Info(ctx, "replication")
	if err != nil {
		return err
	}
	for k, v := range want {
		if info[k] != v {
			return fmt.Errorf("%s: %s is %q, want %q", srv.Addr(), k, info[k], v)
		}
	}
	return nil
}

// Failover makes the replica the master, as an operator would, and waits until the old master follows the new one. What
// the replica had not received yet is lost, as it is in production.
func (s *Sentinel) Failover(ctx context.Context) error {
	old, err := s.Master(ctx)
	if err != nil {
		return err
	}
	// Refused while the failover-timeout of an earlier one runs, and while no replica looks good.
	if err := until(ctx, "the fail-over to begin", func(ctx context.Context) error {
		_, err := s.sentinels[0].Do(ctx, "SENTINEL", "FAILOVER", MasterName)
		return err
	}); err != nil {
		return err
	}
	if err := s.WaitMaster(ctx, s.Other(old)); err != nil {
		return err
	}
	return s.WaitReady(ctx)
}

// WaitMaster waits until every running sentinel names srv as the master and srv itself agrees: what a test does after
// it has killed or paused the old one.
func (s *Sentinel) WaitMaster(ctx context.Context, srv *Server) error {
	return until(ctx, "a new master", func(ctx context.Context) error {
		for _, n := range s.sentinels {
			if n.Pid() == 0 {
				continue
			}
			msg, err := n.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName)
			if err != nil {
				return err
			}
			addr, err := msg.AsStrSlice()
			if err != nil {
				return err
			}
			if len(addr) != 2 || addr[1] != strconv.Itoa(srv.port) {
				return fmt.Errorf("sentinel %s names %q", n.Addr(), addr)
			}
		}
		return wantInfo(ctx, srv, map[string]string{"role": "master"})
	})
}
