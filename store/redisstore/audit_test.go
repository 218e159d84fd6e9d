package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/redisstore"
)

// world is one namespace with commands in every place, on a clock of its own.
func world(t *testing.T, url string) *redisstore.Store {
	t.Helper()
	ctx := context.Background()
	s := open(t, url, fresh())
	t.Cleanup(func() { s.Close() })
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(s.SetClock(ctx, 2_000_000_000_000))
	big := []byte(strings.Repeat("x", 3000))
	sub := func(id string, change func(*store.Submission)) {
		t.Helper()
		c := store.Submission{ID: id, Queue: "q", Type: "t", Group: "g", Params: []byte("p")}
		if change != nil {
			change(&c)
		}
		res, err := s.Submit(ctx, store.SubmitRequest{Items: []store.Submission{c}})
		ok(err)
		if !res[0].Created {
			t.Fatal(res[0])
		}
	}
	claim := func(lane store.Lane) *store.Command {
		t.Helper()
		cs := claimN(t, s, "w1", lane, 1)
		if len(cs) != 1 {
			t.Fatalf("claimed %d", len(cs))
		}
		return cs[0]
	}
	settle := func(c *store.Command, kind store.OutcomeKind, change func(*store.Settlement)) {
		t.Helper()
		it := store.Settlement{ID: c.ID, Lease: c.Lease, Kind: kind}
		if change != nil {
			change(&it)
		}
		settleAll(t, s, it)
	}
	sub("parked", func(c *store.Submission) { c.Params, c.UniqueKey = big, "parked" })
	settle(claim(store.Intake), store.OutcomeProcessing, func(it *store.Settlement) {
		it.SetState, it.State, it.Delay, it.HasHook = true, big, time.Hour, true
	})
	sub("done", nil)
	settle(claim(store.Intake), store.OutcomeDone, func(it *store.Settlement) { it.Result = big })
	sub("failed", nil)
	settle(claim(store.Intake), store.OutcomeFail, func(it *store.Settlement) { it.Error = string(big) })
	sub("told", func(c *store.Submission) { c.Notify = "topic" })
	settle(claim(store.Intake), store.OutcomeDone, nil)
	sub("buried", func(c *store.Submission) { c.Retention = -1 })
	settle(claim(store.Intake), store.OutcomeDone, nil)
	sub("retried", nil)
	settle(claim(store.Intake), store.OutcomeRetry, func(it *store.Settlement) { it.Delay = time.Hour })
	sub("leased", func(c *store.Submission) { c.Deadline = 2_000_003_600_000 })
	claim(store.Intake)
	_, err := s.Cancel(ctx, store.CancelRequest{IDs: []string{"leased"}})
	ok(err)
	sub("later", func(c *store.Submission) { c.Delay = time.Hour })
	sub("ready", func(c *store.Submission) { c.StartBy = 2_000_003_600_000 })
	return s
}

func TestAuditFindsNothingInAGoodStore(t *testing.T) {
	s := world(t, redistest.Shared(t).URL())
	rep, err := s.Audit(context.Background())
	if err != nil || len(rep.Violations) > 0 || rep.Commands != 9 || rep.Leased != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
}

// Every kind of damage has to be found, and to be named by the id or the key.
func TestAuditFindsDamage(t *testing.T) {
	srv := redistest.Shared(t)
	for _, d := range []struct{ name, cmd, want string }{
		{"no record", "DEL c|ready", "ready: "},
		{"torn record", "SETRANGE c|ready 1 \x09", "ready: its record cannot be read"},
		{"not in line", "ZREM l|$ready ready", "ready: is not in its line"},
		{"wrong due", "ZADD l|$parked 5 parked", "parked: stands in its line at 5"},
		{"in two places", "ZADD sr 5 ready", "ready: is in the due times"},
		{"in two lines", "ZADD l|$parked 5 ready", "ready: is in l|"},
		{"no lease", "HDEL T leased", "leased: is in the ends of leases"},
		{"no end of lease", "ZREM L leased", "leased: is not in the ends of leases"},
		{"lease of nobody", "HSET T ghost 5.nonce0000 w 1", "ghost: has a lease but no record"},
		{"expiry of nobody", "ZADD L 5 ghost", "ghost: has the end of a lease but no record"},
		{"lease cannot be read", "HSET T leased nonsense", "leased: its lease"},
		{"no deadline of lease", "ZREM xl leased", "leased: is not in the deadlines"},
		{"no cancel mark", "SREM cx leased", "leased: cancel asked"},
		{"overdue by nothing", "SADD od leased", "leased: overdue"},
		{"not scheduled", "ZREM sn later", "later: waits in"},
		{"not in backoff", "ZREM sr retried", "retried: waits in"},
		{"wrong backoff", "ZADD sr 5 retried", "retried: stands in the due times at 5"},
		{"no start_by", "ZREM x ready", "ready: is not in the times to end"},
		{"not listed", "ZREM f|q|s done", "done: is not in its finished list"},
		{"listed twice", "ZADD f|q|c 5 done", "done: is in f|q|c"},
		{"never purged", "ZREM z done", "done: is not in the times to purge"},
		{"unique key lost", "HDEL u parked", "parked: its unique key"},
		{"unique key of nobody", "HSET u other ready", "other: is in u"},
		{"line is not open", "DEL o|q|i0|t", "is not open"},
		{"line at the wrong place", "ZADD o|q|i0|t 5 $ready", "is open at 5"},
		{"empty line is open", "ZADD o|q|i1|t 5 00000000000000000", "00000000000000000"},
		{"line not defined", "DEL ld", "definition"},
		{"records of a line", "HINCRBY lr $base 1", "records of lines"},
		{"group", "HINCRBY g g 1", "groups: g"},
		{"numbers", "HINCRBY n|q it 1", "numbers of q: it"},
		{"numbers of nothing", "HSET n|q Iother 1", "numbers of q: Iother"},
		{"seq", "HSET meta seq 1", "seq: "},
		{"tok", "HSET meta tok 1", "tok: "},
		{"next poll", "DEL kn", "next poll"},
		{"params gone", "DEL p|parked", "parked: params"},
		{"state gone", "DEL s|parked", "parked: state"},
		{"error gone", "DEL e|failed", "failed: error"},
		{"result gone", "DEL r|done", "done: result"},
		{"orphan blob", "SET s|ghost x", "ghost: has a state but no record"},
		{"outbox entry gone", "DEL oi|topic", "told: "},
		{"outbox entry unseen", "DEL ob|topic", "told: its outbox entry"},
		{"set aside", "ZADD lost 5 ready", "ready: was set aside"},
		{"foreign key", "SET nonsense 1", "nonsense: is a key of no known kind"},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := world(t, srv.URL())
			ctx := context.Background()
			prefix := "{" + s.Namespace() + "}:"
			line := func(id, class string) string {
				m, err := srv.Do(ctx, "GETRANGE", prefix+"c|"+id, "20", "35")
				if err != nil {
					t.Fatal(err)
				}
				base, _ := m.ToString()
				return base + class
			}
			words := strings.SplitN(d.cmd, " ", 5)
			for i, w := range words {
				w = strings.NewReplacer("$ready", line("ready", "i0"), "$parked", line("parked", "k0"), "$base", line("ready", "")).Replace(w)
				if i == 1 {
					w = prefix + w
				}
				words[i] = w
			}
			if words[0] == "HSET" && len(words) == 5 { // a value with blanks
				words = []string{words[0], words[1], words[2], words[3] + " " + words[4]}
			}
			if _, err := srv.Do(ctx, words...); err != nil {
				t.Fatal(err)
			}
			rep, err := s.Audit(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if all := strings.Join(rep.Violations, "\n"); !strings.Contains(all, d.want) {
				t.Errorf("after %q the audit says\n%s\nwithout %q", d.cmd, all, d.want)
			}
		})
	}
}

// An audit of a store that is at work must not cry wolf.
func TestAuditWhileAtWork(t *testing.T) {
	s := open(t, redistest.Shared(t).URL(), fresh())
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- func() error {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return nil
				default:
				}
				var subs []store.Submission
				for j := range 20 {
					subs = append(subs, store.Submission{ID: fmt.Sprintf("a%d-%d", i, j), Queue: "q", Type: "t", Group: fmt.Sprint("g", j%3)})
				}
				if _, err := s.Submit(ctx, store.SubmitRequest{Items: subs}); err != nil {
					return err
				}
				var items []store.Settlement
				for k, c := range claimN(t, s, "w1", store.Intake, 15) {
					items = append(items, store.Settlement{ID: c.ID, Lease: c.Lease, Kind: []store.OutcomeKind{store.OutcomeDone, store.OutcomeRetry, store.OutcomeProcessing}[k%3], Delay: time.Minute})
				}
				if _, err := s.Settle(ctx, store.SettleRequest{Worker: "w1", Items: items}); err != nil {
					return err
				}
			}
		}()
	}()
	for range 10 {
		rep, err := s.Audit(ctx)
		if err != nil || len(rep.Violations) > 0 {
			t.Errorf("%v %v", err, rep.Violations[:min(10, len(rep.Violations))])
			break
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if rep, err := s.Audit(ctx); err != nil || len(rep.Violations) > 0 || rep.Commands == 0 {
		t.Errorf("in the end: %+v %v", rep, err)
	}
}
