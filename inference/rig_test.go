package inference

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
	"github.com/twolane/twolane/internal/openstore"
	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
)

// call is one request that the gateway got.
type call struct {
	path   string // with the query as it came
	header http.Header
	body   string
	at     time.Time
}

// gateway is a stand-in that counts.
type gateway struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []call
	now    int // in flight
	most   int
	answer func(w http.ResponseWriter, r *http.Request, body string) // nil: 200 with the body
}

func newGateway(t testing.TB) *gateway {
	g := &gateway{}
	g.Server = httptest.NewServer(http.HandlerFunc(g.serve))
	t.Cleanup(g.Close)
	return g
}

func (g *gateway) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	g.mu.Lock()
	g.calls = append(g.calls, call{r.RequestURI, r.Header.Clone(), string(body), time.Now()})
	g.now++
	g.most = max(g.most, g.now)
	answer := g.answer
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.now--
		g.mu.Unlock()
	}()
	if answer != nil {
		answer(w, r, string(body))
		return
	}
	w.Write(body)
}

func (g *gateway) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.calls)
}

func (g *gateway) seen() []call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]call(nil), g.calls...)
}

// rig is a producers' Redis, a gateway, and processors on them.
type rig struct {
	testing.TB
	srv   *redistest.Server
	redis rueidis.Client
	gate  *gateway
	cfg   *config.Config
}

func newRig(t testing.TB, change func(*config.Config)) *rig {
	t.Helper()
	return newRigOn(t, redistest.Start(t), change)
}

func newRigOn(t testing.TB, srv *redistest.Server, change func(*config.Config)) *rig {
	t.Helper()
	r := &rig{TB: t, srv: srv, gate: newGateway(t)}
	var err error
	if r.redis, err = r.srv.Client(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.redis.Close)
	r.cfg = r.config(change)
	return r
}

func (r *rig) config(change func(*config.Config)) *config.Config {
	r.Helper()
	cfg := config.Default()
	cfg.Redis.URL = r.srv.URL()
	cfg.Queues = []config.Queue{{Name: "q-a", BaseURL: r.gate.URL}}
	cfg.Drain = 4 * time.Second
	if change != nil {
		change(cfg)
	}
	if err := cfg.Complete(); err != nil {
		r.Fatal(err)
	}
	return cfg
}

// configure changes the store before there is a processor.
func (r *rig) configure(change func(*twolane.Config)) {
	r.Helper()
	url, err := StoreURL(r.cfg)
	if err != nil {
		r.Fatal(err)
	}
	st, err := openstore.Open(r.Context(), url, nil)
	if err != nil {
		r.Fatal(err)
	}
	c := twolane.NewClient(st, nil)
	_, err = c.Configure(r.Context(), func(cfg *twolane.Config) error {
		change(cfg)
		return nil
	})
	if err := errors.Join(err, c.Close(), st.Close()); err != nil {
		r.Fatal(err)
	}
}

// running is a processor that runs.
type running struct {
	*Processor
	stop func() error
}

// start runs a processor until the end of the test, or until it is stopped.
func (r *rig) start(cfg *config.Config) *running {
	r.Helper()
	return r.startWith(cfg, Options{}, nil)
}

// startOn does what start does, with something between the processor and its store.
func (r *rig) startOn(cfg *config.Config, wrap func(store.Store) store.Store) *running {
	r.Helper()
	return r.startWith(cfg, Options{}, wrap)
}

// startWith does what start does with other options; wrap, if any, stands between the processor and its store.
func (r *rig) startWith(cfg *config.Config, opt Options, wrap func(store.Store) store.Store) *running {
	r.Helper()
	url, err := StoreURL(cfg)
	if err != nil {
		r.Fatal(err)
	}
	st, err := openstore.Open(r.Context(), url, nil)
	if err != nil {
		r.Fatal(err)
	}
	opt.Store = st
	if wrap != nil {
		opt.Store = wrap(st)
	}
	if opt.Logger == nil {
		opt.Logger = r.logger()
	}
	p, err := New(cfg, opt)
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	var once sync.Once
	var last error
	stop := func() error {
		once.Do(func() {
			cancel()
			last = <-ended
			audit(r, st)
			if err := p.Close(); err != nil {
				r.Error(err)
			}
			if err := st.Close(); err != nil {
				r.Error(err)
			}
		})
		return last
	}
	r.Cleanup(func() {
		if err := stop(); err != nil {
			r.Error(err)
		}
	})
	return &running{p, stop}
}

func audit(t testing.TB, st store.Store) {
	t.Helper()
	rep, err := st.Audit(context.Background())
	if err != nil {
		t.Errorf("audit: %v", err)
	}
	for _, v := range rep.Violations {
		t.Errorf("audit: %s", v)
	}
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{r.TB}, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

func newToken() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// member makes a request as a producer does.
func member(id string, within time.Duration, change func(*wire.Member)) *wire.Member {
	now := time.Now()
	m := &wire.Member{
		Internal: wire.Internal{Token: newToken(), RequestQueue: "q-a", ResultQueue: "res-a"}, Kind: wire.KindPlain,
		Data: &wire.Data{ID: id, Created: now.Unix(), Deadline: now.Add(within).Unix(), Payload: json.RawMessage(`{"model":"m","prompt":"` + id + `"}`)},
	}
	if change != nil {
		change(m)
	}
	return m
}

// submit submits requests with the commands of the producer library.
func (r *rig) submit(ms ...*wire.Member) {
	r.Helper()
	var cmds rueidis.Commands
	for _, m := range ms {
		raw, err := m.Bytes()
		if err != nil {
			r.Fatal(err)
		}
		ttl := max(time.Until(time.Unix(m.Data.Deadline, 0)), time.Millisecond)
		b := r.redis.B()
		cmds = append(cmds, b.Multi().Build(), b.Del().Key(wire.CancelKey(m.Data.ID)).Build(),
			b.Set().Key(wire.ActiveKey(m.Data.ID)).Value(m.Internal.Token).Px(ttl).Build(),
			b.Zadd().Key(m.Internal.RequestQueue).ScoreMember().ScoreMember(float64(m.Data.Deadline), string(raw)).Build(), b.Exec().Build())
	}
	for _, res := range r.redis.DoMulti(r.Context(), cmds...) {
		if err := res.Error(); err != nil {
			r.Fatal(err)
		}
	}
}

// cancel cancels with the script of the producer library.
func (r *rig) cancel(id string) {
	r.Helper()
	s := rueidis.NewLuaScript(`local v = redis.call('GET', KEYS[1]) if v then redis.call('SET', KEYS[2], v, 'EX', 604800) return 1 end return 0`)
	if err := s.Exec(r.Context(), r.redis, []string{wire.ActiveKey(id), wire.CancelKey(id)}, nil).Error(); err != nil {
		r.Fatal(err)
	}
}

// results waits for so many records of a list, as a consumer reads them.
func (r *rig) results(list string, n int, within time.Duration) []wire.Result {
	r.Helper()
	var out []wire.Result
	end := time.Now().Add(within)
	for len(out) < n {
		left := time.Until(end)
		if left <= 0 {
			r.Fatalf("%d of %d results within %v", len(out), n, within)
		}
		kv, err := r.redis.Do(r.Context(), r.redis.B().Brpop().Key(list).Timeout(max(0.01, left.Seconds())).Build()).AsStrSlice()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			r.Fatal(err)
		}
		var res wire.Result
		if err := json.Unmarshal([]byte(kv[1]), &res); err != nil {
			r.Fatalf("%s: %v", kv[1], err)
		}
		out = append(out, res)
	}
	return out
}

// do runs a command and returns its reply as text, or as lines.
func (r *rig) do(args ...string) []string {
	r.Helper()
	m, err := r.redis.Do(r.Context(), r.redis.B().Arbitrary(args...).Build()).ToMessage()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	if err != nil {
		r.Fatal(err)
	}
	if a, err := m.AsStrSlice(); err == nil {
		return a
	}
	if n, err := m.AsInt64(); err == nil {
		return []string{strconv.FormatInt(n, 10)}
	}
	s, err := m.ToString()
	if err != nil {
		r.Fatal(err)
	}
	return []string{s}
}

// until waits for something to be so.
func (r *rig) until(what string, within time.Duration, is func() bool) {
	r.Helper()
	// Many tests wait at once, and what they wait for is to have the machine: the longer it takes, the less often they look.
	began := time.Now()
	for pause := time.Millisecond; !is(); pause = min(pause*3/2, 25*time.Millisecond) {
		if time.Since(began) > within {
			r.Fatalf("%s: not within %v", what, within)
		}
		time.Sleep(pause)
	}
}
