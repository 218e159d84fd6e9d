package inference

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/internal/redistest"
)

// childConfig makes the test binary a processor with the configuration file that it names.
const childConfig = "TWOLANE_TEST_INFERENCE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childConfig); path != "" {
		if err := child(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The tests wait more than they work: more of them at once than there are processors.
	flag.Parse()
	if p := flag.Lookup("test.parallel"); p.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if err := p.Value.Set("6"); err != nil {
			panic(err)
		}
	}
	redistest.Main(m)
}

func child(path string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg, err := config.ReadFile(path, os.Getenv)
	if err != nil {
		return err
	}
	url, err := StoreURL(cfg)
	if err != nil {
		return err
	}
	st, err := openstore.Open(ctx, url, nil)
	if err != nil {
		return err
	}
	p, err := New(cfg, Options{Store: st, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// process starts a processor as a process of its own. It ends with the test at the latest.
func (r *rig) process(cfg *config.Config) *exec.Cmd {
	r.Helper()
	path := filepath.Join(r.TempDir(), "inference.yaml")
	clear := *cfg
	clear.Redis.URL = "" // String hides passwords
	if err := os.WriteFile(path, []byte(clear.String()), 0o600); err != nil {
		r.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childConfig+"="+path, "REDIS_URL="+cfg.Redis.URL)
	log, err := os.Create(filepath.Join(r.TempDir(), "log"))
	if err != nil {
		r.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // its end was the test's doing
		if b, err := os.ReadFile(log.Name()); r.Failed() && err == nil {
			r.Logf("a processor said:\n%s", b)
		}
		log.Close()
	})
	return cmd
}

func (r *rig) kill(cmd *exec.Cmd) {
	r.Helper()
	if err := cmd.Process.Kill(); err != nil {
		r.Fatal(err)
	}
	_ = cmd.Wait() // the kill
}

// oneRecordEach checks that there is exactly one record for every request, or at least one, and stays so.
func (r *rig) oneRecordEach(list string, tokens map[string]string, exactly bool, within time.Duration) {
	r.Helper()
	seen := map[string]int{}
	read := func() {
		n := 0
		for _, raw := range r.do("LRANGE", list, "0", "-1") {
			var res wire.Result
			if err := json.Unmarshal([]byte(raw), &res); err != nil {
				r.Fatalf("%s: %v", raw, err)
			}
			id, ok := tokens[res.Token]
			if !ok || id != res.ID || res.StatusCode != http.StatusOK {
				r.Errorf("a record nobody asked for: %s", raw)
			}
			seen[res.Token]++
			n++
		}
	}
	r.until(fmt.Sprintf("%d requests are answered", len(tokens)), within, func() bool {
		clear(seen)
		if r.length(list) < len(tokens) {
			return false
		}
		read()
		return len(seen) == len(tokens)
	})
	time.Sleep(300 * time.Millisecond) // what comes twice comes soon
	clear(seen)
	read()
	for token, n := range seen {
		if n > 1 && exactly {
			r.Errorf("request %s has %d records", tokens[token], n)
		}
	}
}

// length is how many records a list has.
func (r *rig) length(list string) int {
	r.Helper()
	n, err := strconv.Atoi(r.do("LLEN", list)[0])
	if err != nil {
		r.Fatal(err)
	}
	return n
}

// full says that there is time for tests at their real lengths.
func full() bool { return os.Getenv("TWOLANE_CHAOS") == "full" }

// eightAtATime runs rounds of a test.
func eightAtATime(t *testing.T, n int, run func(t *testing.T, i int)) {
	rounds := make(chan int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range rounds {
				t.Run(fmt.Sprint(i), func(t *testing.T) { run(t, i) })
			}
		})
	}
	for i := range n {
		rounds <- i
	}
	close(rounds)
	wg.Wait()
}

// A processor is killed at any moment with 64 requests in flight. Every request ends in exactly one record, where store and lists are one Redis.
func TestFault01Kill(t *testing.T) { // not beside other tests: eight rounds at a time are load enough
	n := 25
	if full() {
		n = 100
	}
	eightAtATime(t, n, func(t *testing.T, i int) { killRound(t, true, i%8 == 7, func(c *config.Config) {}) })
}

// The same with the requests kept elsewhere: at least one record, with the same token.
func TestKillWithTheStoreElsewhere(t *testing.T) {
	n := 4
	if full() {
		n = 50
	}
	eightAtATime(t, n, func(t *testing.T, i int) {
		url := "sqlite:" + filepath.Join(t.TempDir(), "q.db")
		if i%2 == 1 {
			url = redistest.Start(t).URL() + "?namespace=elsewhere"
		}
		killRound(t, false, i%4 < 2, func(c *config.Config) { c.Store.URL = url })
	})
}

// killRound kills one processor, or two: requests that were lost twice are suspects and run one by one, after a pause.
func killRound(t *testing.T, exactly, twice bool, change func(*config.Config)) {
	r := newRig(t, func(c *config.Config) {
		c.Store.Visibility = 2 * time.Second
		change(c)
	})
	r.gate.answer = func(w http.ResponseWriter, req *http.Request, body string) {
		time.Sleep(time.Duration(20+rand.IntN(200)) * time.Millisecond)
		io.WriteString(w, body)
	}
	first := r.process(r.cfg)
	const n = 144 // 64 of them at once
	tokens := map[string]string{}
	var ms []*wire.Member
	for i := range n {
		m := member(fmt.Sprintf("req-%d", i), 5*time.Minute, nil)
		tokens[m.Internal.Token], ms = m.Data.ID, append(ms, m)
	}
	r.submit(ms...)
	r.until("some are in flight", 60*time.Second, func() bool { return r.gate.count() >= 1 })
	time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
	r.kill(first)
	second := r.process(r.cfg)
	if twice {
		before := r.gate.count()
		r.until("the second goes on", 60*time.Second, func() bool {
			return r.gate.count() > before || r.length("res-a") == n
		})
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		r.kill(second)
		r.process(r.cfg)
	}
	r.oneRecordEach("res-a", tokens, exactly, 60*time.Second)
	if left := r.do("ZCARD", "q-a")[0]; left != "0" {
		t.Errorf("%s members are left in the set", left)
	}
}

// Redis is away for ten seconds while requests end: nothing is lost and nothing comes twice.
func TestFault02RedisAway(t *testing.T) {
	t.Parallel()
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		redisAway(t, redistest.Start(t), (*redistest.Server).Pause, (*redistest.Server).Resume)
	})
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		redisAway(t, redistest.Start(t, "--appendonly", "yes"), (*redistest.Server).Stop, func(s *redistest.Server) error { return s.Restart(t.Context()) })
	})
}

func redisAway(t *testing.T, srv *redistest.Server, goes, comes func(*redistest.Server) error) {
	r := newRigOn(t, srv, nil)
	release := make(chan struct{})
	r.gate.answer = func(w http.ResponseWriter, req *http.Request, body string) {
		select {
		case <-release:
		case <-req.Context().Done():
		}
		io.WriteString(w, body)
	}
	r.start(r.cfg)
	tokens := map[string]string{}
	for i := range 64 {
		m := member(fmt.Sprint("req-", i), 5*time.Minute, nil)
		tokens[m.Internal.Token] = m.Data.ID
		r.submit(m)
	}
	r.until("all are in flight", 10*time.Second, func() bool { return r.gate.count() == 64 })
	if err := goes(srv); err != nil {
		t.Fatal(err)
	}
	close(release)
	time.Sleep(10 * time.Second)
	if err := comes(srv); err != nil {
		t.Fatal(err)
	}
	r.until("it answers", 10*time.Second, func() bool { return r.redis.Do(r.Context(), r.redis.B().Ping().Build()).Error() == nil })
	r.oneRecordEach("res-a", tokens, true, 20*time.Second)
	if n := r.gate.count(); n != 64 {
		t.Errorf("%d calls for 64 requests", n)
	}
}
