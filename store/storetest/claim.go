package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
)

var claimCases = []kase{
	{"is_the_mark", "a command is recorded as leased in the step that chose it, with owner, name and end of the lease", func(f *fixture) {
		f.submit(sub("a"))
		r := f.claimFor("w1", store.Intake, 1)
		c := f.tryClaim(r).Grants[0].Items[0]
		f.check(c.Place == store.Leased && c.Owner == "w1" && c.Lease.Nonce == r.Nonce && c.Lease.Token > 0 && c.Starts == 1, "granted: %s", show(c))
		f.check(string(c.Params) == `{"id":"a"}`, "params: %q", c.Params)
		g := f.is("a", store.Pending, store.Leased)
		f.check(g.Lease == c.Lease && g.Owner == "w1" && g.Starts == 1 && g.LeaseUntil == c.LeaseUntil, "stored: %s", show(g))
		f.check(g.LeaseUntil == f.stats().LeaseAt.Add(f.v), "the lease ends at %d, lease clock %d, visibility %v", g.LeaseUntil, f.stats().LeaseAt, f.v)
		f.check(len(f.claim("w2", store.Intake, 1)) == 0, "claimed twice")
	}},
	{"bounds", "a claim never grants more invocations than Free of the lane, Max of the want and the rooms of the type, and serves wants in order", func(f *fixture) {
		f.submit(many("a", 5)...)
		f.submit(many("b", 5, func(s *store.Submission) { s.Queue = "q2" })...)
		f.submit(many("c", 5, func(s *store.Submission) { s.Type = "t2" })...)
		want := func(q string, n int, types ...store.TypeWant) store.Want {
			return store.Want{Queue: q, Lane: store.Intake, Max: n, Types: types}
		}
		r := store.ClaimRequest{Worker: "w1", Nonce: f.drawNonce(), Free: [2]int{6, 0}, Rooms: []int{1}, Wants: []store.Want{
			want("q2", 2, store.TypeWant{Type: "t"}), want("q", 3, store.TypeWant{Type: "t", Rooms: []int{0}}, store.TypeWant{Type: "t2"}),
			want("q2", 5, store.TypeWant{Type: "t"}),
		}}
		reply := f.tryClaim(r)
		got := ids(items(reply.Grants))
		f.check(slices.Equal(got, []string{"b-0000", "b-0001", "a-0000", "c-0000", "c-0001", "b-0002"}), "granted %v", got)
		for i, n := range []int{2, 3, 1} {
			f.check(reply.Wants[i].Granted == n && reply.Wants[i].Why == store.WhyFull, "report of want %d: %+v", i, reply.Wants[i])
		}
	}},
	{"rooms", "types of several wants share a room in the order of the wants and of their queues, and what has no room does not stand before what has", func(f *fixture) {
		f.submit(many("a", 4)...)
		f.submit(many("c", 4, func(s *store.Submission) { s.Type = "t2" })...)
		f.submit(many("b", 4, func(s *store.Submission) { s.Queue = "q2" })...)
		f.submit(many("d", 4, func(s *store.Submission) { s.Queue, s.Type = "q2", "t2" })...)
		want := func(q string) store.Want {
			return store.Want{Queue: q, Lane: store.Intake, Max: 20, Types: []store.TypeWant{{Type: "t", Rooms: []int{0, 1}}, {Type: "t2", Rooms: []int{1}}}}
		}
		claim := func(free int, rooms ...int) []string {
			r := store.ClaimRequest{Worker: "w1", Nonce: f.drawNonce(), Free: [2]int{free, 0}, Rooms: rooms, Wants: []store.Want{want("q"), want("q2")}}
			return ids(items(f.tryClaim(r).Grants))
		}
		f.check(len(claim(20, 5, 0)) == 0, "no room")
		got := claim(20, 2, 3)
		f.check(slices.Equal(got, []string{"a-0000", "a-0001", "c-0000"}), "granted %v", got)
		got = claim(20, 0, 4)
		f.check(slices.Equal(got, []string{"c-0001", "c-0002", "c-0003", "d-0000"}), "granted %v", got)
		got = claim(20, 3, 20)
		f.check(slices.Equal(got, []string{"a-0002", "a-0003", "b-0000", "d-0001", "d-0002", "d-0003"}), "granted %v", got)
		got = claim(1, 9, 9)
		f.check(slices.Equal(got, []string{"b-0001"}), "granted %v", got)
	}},
	{"ordered", "with Ordered a want that bytes have stopped is not overtaken by the one behind it", func(f *fixture) {
		big := func(s *store.Submission) { s.Params = bytes.Repeat([]byte("x"), 2000) }
		f.submit(many("a", 3, big)...)
		f.submit(many("b", 3, func(s *store.Submission) { s.Queue = "q2" })...)
		claim := func(ordered bool) (store.ClaimReply, []string) {
			r := f.claimFor("w1", store.Intake, 5)
			r.MaxBytes, r.Ordered = 3000, ordered
			r.Wants = append(r.Wants, r.Wants[0])
			r.Wants[1].Queue = "q2"
			reply := f.tryClaim(r)
			return reply, ids(items(reply.Grants))
		}
		for _, id := range []string{"a-0000", "a-0001"} {
			reply, got := claim(true)
			f.check(slices.Equal(got, []string{id}) && reply.Wants[1].Why == store.WhyMore, "granted %v, %+v", got, reply.Wants)
		}
		_, got := claim(true)
		f.check(len(got) > 1 && got[0] == "a-0002" && got[1] == "b-0000", "granted %v", got)
	}},
	{"rooms_and_visits", "a cancel visit needs no room, and takes none", func(f *fixture) {
		for _, id := range []string{"a", "b", "c"} {
			f.park(id, hook)
		}
		f.Pass(time.Minute)
		f.cancel("c")
		r := f.claimFor("w2", store.Repoll, 3)
		r.Rooms = []int{1}
		r.Wants[0].Types[0].Rooms = []int{0}
		got := f.tryClaim(r).Grants
		f.check(len(got) == 2 && got[0].Class == store.ClassCancel && !got[1].Class.Visit(), "granted %v", ids(items(got)))
	}},
	{"F158_foreign_types", "a type that the want does not name, a foreign queue and a foreign lane are never claimed and cost nothing", func(f *fixture) {
		f.submit(sub("a", func(s *store.Submission) { s.Type = "other" }), sub("b", func(s *store.Submission) { s.Queue = "other" }))
		reply := f.tryClaim(f.claimFor("w1", store.Intake, 10))
		f.check(len(reply.Grants) == 0 && reply.Wants[0].Why == store.WhyEmpty, "%+v", reply)
		f.check(len(f.claim("w1", store.Repoll, 10)) == 0, "the other lane claimed it")
		a := f.is("a", store.Pending, store.InLine)
		f.check(a.Starts == 0 && a.Failures == 0 && a.Losses == 0, "%s", show(a))
		// Neither does a foreign backlog stand before what can be run.
		f.submit(many("x", 150, func(s *store.Submission) { s.Type = "other" })...)
		f.submit(sub("z"))
		f.claim1("w1", store.Intake, "z")
	}},
	{"nonce", "a claim repeated with the nonce of the worker's last one gets its leases that are still current, and nothing else", func(f *fixture) {
		f.submit(many("a", 3)...)
		r := f.claimFor("w1", store.Intake, 3)
		first := items(f.tryClaim(r).Grants)
		f.submit(many("b", 3)...)
		again := items(f.tryClaim(r).Grants)
		f.check(len(first) == 3 && len(again) == 3, "granted %v, then %v", ids(first), ids(again))
		for i := range again {
			f.check(again[i].ID == first[i].ID && again[i].Lease == first[i].Lease && again[i].Starts == 1 && bytes.Equal(again[i].Params, first[i].Params),
				"repeated: %s, first: %s", show(again[i]), show(first[i]))
		}
		f.settle(first[0], store.OutcomeDone)
		f.settle(first[1], store.OutcomeRetry, delay(time.Second))
		again = items(f.tryClaim(r).Grants)
		f.check(len(again) == 1 && again[0].ID == first[2].ID, "after two settles: %v", ids(again))
		other := f.claimFor("w2", store.Intake, 3)
		other.Nonce = r.Nonce
		f.check(len(items(f.tryClaim(other).Grants)) == 3, "the nonce of another worker counts")
	}},
	{"nonce_same_id", "a repeated claim never hands out a record that was made anew under the same id", func(f *fixture) {
		f.submit(sub("a"))
		r := f.claimFor("w1", store.Intake, 1)
		f.tryClaim(r)
		f.ok(f.act(store.ActDelete, "a", func(r *store.ActRequest) { r.Force = true }))
		f.submit(sub("a"))
		f.check(len(f.tryClaim(r).Grants) == 0, "the repeated claim got the new record")
		f.claim1("w2", store.Intake, "a")
	}},
	{"tokens_grow", "tokens come from one counter of the namespace and grow with every claim", func(f *fixture) {
		var last uint64
		f.submit(many("a", 6, func(s *store.Submission) { s.Queue = "q2" })...)
		for i := range 4 {
			f.submit(sub("x"))
			c := f.claim1(fmt.Sprintf("w%d", i), store.Intake, "x")
			f.check(c.Lease.Token > last, "token %d after %d", c.Lease.Token, last)
			last = c.Lease.Token
			f.ok(f.act(store.ActDelete, "x", func(r *store.ActRequest) { r.Force = true }))
		}
	}},
	{"bytes", "MaxBytes bounds the blobs of a reply, one command is granted whatever its size, and what is left out is announced as more", func(f *fixture) {
		big := func(s *store.Submission) { s.Params = bytes.Repeat([]byte("x"), 50_000) }
		f.submit(many("a", 5, big)...)
		r := f.claimFor("w1", store.Intake, 5)
		r.MaxBytes = 1000
		reply := f.tryClaim(r)
		f.check(len(reply.Grants) == 1 && reply.Wants[0].Why == store.WhyMore && reply.More, "first reply: %d grants, %+v", len(reply.Grants), reply.Wants)
		r.Nonce, r.MaxBytes = f.drawNonce(), 120_000
		reply = f.tryClaim(r)
		f.check(len(reply.Grants) >= 1 && len(reply.Grants) <= 2 && reply.Wants[0].Why == store.WhyMore, "second reply: %d grants, %+v", len(reply.Grants), reply.Wants)
		n := 1 + len(reply.Grants) + len(f.claim("w1", store.Intake, 5))
		f.check(n == 5, "%d of 5 granted in the end", n)
	}},
	{"fifo", "commands of one priority start in the order of their arrival; a smaller priority goes first", func(f *fixture) {
		for i, p := range []uint8{5, 0, 5, 255, 0} {
			f.submit(sub(fmt.Sprintf("p%d-%d", p, i), func(s *store.Submission) { s.Priority = p }))
		}
		got := strings.Join(ids(f.claim("w1", store.Intake, 10)), " ")
		f.check(got == "p0-1 p0-4 p5-0 p5-2 p255-3", "order is %s", got)
	}},
	{"many_lines", "the order holds over lines: groups, types, keys and batch keys do not change it", func(f *fixture) {
		var want []string
		for i := range 24 {
			s := sub(fmt.Sprintf("a-%02d", i), func(s *store.Submission) {
				s.Group, s.BatchKey, s.Cost = []string{"", "g1", "g2"}[i%3], []string{"", "b1"}[i%2], 1+i%4
				if i%5 == 0 {
					s.Keys = []store.Key{{Name: "tenant", Value: fmt.Sprint("v", i)}}
				}
			})
			f.submit(s)
			want = append(want, s.ID)
		}
		var got []string
		for range 8 {
			got = append(got, ids(f.claim("w1", store.Intake, 3))...)
		}
		f.check(slices.Equal(got, want), "order is %v", got)
	}},
	{"by_deadline", "a queue ordered by deadline starts the earliest first and those without one last", func(f *fixture) {
		f.queue("q", func(q *store.QueueConfig) { q.Order = store.ByDeadline })
		for _, d := range []int{30, 0, 10, 20} {
			f.submit(sub(fmt.Sprint("d", d), func(s *store.Submission) {
				if d > 0 {
					s.Deadline = epoch.Add(time.Duration(d) * time.Minute)
				}
			}))
		}
		got := strings.Join(ids(f.claim("w1", store.Intake, 10)), " ")
		f.check(got == "d10 d20 d30 d0", "order is %s", got)
	}},
	{"three_to_one", "when first runs and re-runs both wait, every fourth intake invocation of a worker is a re-run, in one call or in many", func(f *fixture) {
		f.submit(many("r", 20)...)
		for _, c := range f.claim("w1", store.Intake, 20) {
			f.settle(c, store.OutcomeRetry, delay(100*time.Millisecond))
		}
		f.Pass(time.Second)
		f.submit(many("f", 60)...)
		count := map[byte]int{}
		for turn := 0; turn < 40; {
			r := f.claimFor("w1", store.Intake, 5)
			r.Wants[0].Turn = turn
			got := f.claimAll(r)
			f.check(len(got) == 5, "granted %d of 5", len(got))
			for _, g := range got {
				count[g.Items[0].ID[0]]++
				rerun := g.Items[0].ID[0] == 'r'
				f.check(rerun == (turn%4 == 3), "turn %d went to %s", turn, g.Items[0].ID)
				f.check((g.Class == store.ClassRerun) == rerun && (g.Class == store.ClassFirst) != rerun, "%s is granted as class %s", g.Items[0].ID, g.Class)
				turn++
			}
		}
		f.check(count['r'] == 10 && count['f'] == 30, "%d re-runs and %d first runs", count['r'], count['f'])
		f.check(len(f.claim("w1", store.Intake, 40)) == 40, "the rest is not claimed once only one kind or the other is left")
	}},
	{"invalid", "a claim with a bad worker, nonce, name or bound is refused with ErrInvalid and changes nothing", func(f *fixture) {
		f.submit(sub("a"))
		for name, spoil := range map[string]func(r *store.ClaimRequest){
			"no worker": func(r *store.ClaimRequest) { r.Worker = "" }, "blank in worker": func(r *store.ClaimRequest) { r.Worker = "w 1" },
			"short nonce": func(r *store.ClaimRequest) { r.Nonce = "1234567" }, "long nonce": func(r *store.ClaimRequest) { r.Nonce = strings.Repeat("n", 33) },
			"dot in nonce": func(r *store.ClaimRequest) { r.Nonce = "1234.5678" }, "negative free": func(r *store.ClaimRequest) { r.Free[0] = -1 },
			"too many": func(r *store.ClaimRequest) { r.Free[0] = store.MaxItems + 1 }, "queue": func(r *store.ClaimRequest) { r.Wants[0].Queue = "q{}" },
			"type": func(r *store.ClaimRequest) { r.Wants[0].Types[0].Type = "" }, "lane": func(r *store.ClaimRequest) { r.Wants[0].Lane = 7 },
			"batch": func(r *store.ClaimRequest) { r.Wants[0].Types[0].Batch = -1 },
		} {
			r := f.claimFor("w1", store.Intake, 1)
			spoil(&r)
			_, err := f.s.Claim(f.ctx(), r)
			f.check(isErr(err, store.ErrInvalid), "%s: %v", name, err)
		}
		f.is("a", store.Pending, store.InLine)
	}},
	{"nothing_free", "a claim that has nothing free gets nothing, and its maintenance is done all the same", func(f *fixture) {
		f.submit(sub("a", func(s *store.Submission) { s.Delay = time.Second }))
		f.Advance(time.Second)
		r := f.claimFor("w1", store.Intake, 0)
		reply := f.tryClaim(r)
		f.check(len(reply.Grants) == 0 && reply.Promoted == 1 && reply.Now == f.now, "%+v", reply)
		f.is("a", store.Pending, store.InLine)
	}},
	{"next", "Next of an empty claim says when something will happen by time alone, and never later than that", func(f *fixture) {
		f.submit(sub("a", func(s *store.Submission) { s.Delay = 7 * time.Second }))
		reply := f.tryClaim(f.claimFor("w1", store.Intake, 1))
		f.check(reply.Next > 0 && reply.Next <= 7*time.Second, "scheduled: next is %v", reply.Next)
		f.Pass(7 * time.Second)
		c := f.claim1("w1", store.Intake, "a")
		f.settle(c, store.OutcomeProcessing, delay(3*time.Second))
		reply = f.tryClaim(f.claimFor("w1", store.Repoll, 1))
		f.check(reply.Next > 0 && reply.Next <= 3*time.Second, "parked: next is %v", reply.Next)
		f.Pass(3 * time.Second)
		f.claim1("w1", store.Repoll, "a")
		reply = f.tryClaim(f.claimFor("w1", store.Repoll, 1))
		f.check(reply.Next > 0 && reply.Next <= f.v, "leased: next is %v", reply.Next)
	}},
	{"next_behind_granted", "Next of a claim that was granted polls says when those behind them are due", func(f *fixture) {
		f.submit(many("a", 3)...)
		for i, c := range f.claim("w1", store.Intake, 3) {
			f.settle(c, store.OutcomeProcessing, delay(time.Duration(i+1)*time.Second))
		}
		f.Pass(time.Second)
		for range 2 {
			reply := f.tryClaim(f.claimFor("w1", store.Repoll, 10))
			f.check(len(reply.Grants) == 1 && reply.Next > 0 && reply.Next <= time.Second, "granted %d, next is %v", len(reply.Grants), reply.Next)
			f.Pass(time.Second)
		}
	}},
}
