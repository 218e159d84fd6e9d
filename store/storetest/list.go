package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/twolane/twolane/store"
)

// listAll reads every page.
func (f *fixture) listAll(r store.ListRequest) []*store.Command {
	f.Helper()
	var all []*store.Command
	for range 10_000 {
		p, err := f.s.List(f.ctx(), r)
		f.ok(err)
		f.check(r.Limit == 0 || len(p.Commands) <= r.Limit, "a page of %d has %d", r.Limit, len(p.Commands))
		all = append(all, p.Commands...)
		if r.Cursor = p.Cursor; r.Cursor == "" {
			return all
		}
	}
	f.Fatal("a list never ends")
	return nil
}

func inQ(status store.Status) store.ListRequest {
	return store.ListRequest{Filter: store.Filter{Queue: "q", Status: status}}
}

var listCases = []kase{
	{"F135_no_blobs", "a list shows every field of a command but its blobs", func(f *fixture) {
		f.submit(sub("a", func(s *store.Submission) {
			s.Group, s.Keys, s.Priority, s.Metadata = "g", []store.Key{{Name: "k", Value: "v"}}, 3, map[string]string{"m": "v"}
		}))
		c := f.claim1("w1", store.Intake, "a")
		f.settle(c, store.OutcomeFail, errText("e"), func(s *store.Settlement) { s.Result = []byte("r") })
		got := f.listAll(inQ(store.Failed))
		want := f.get("a")
		want.Params, want.Result, want.Metadata, want.Events = nil, nil, nil, nil
		if d := cmp.Diff([]*store.Command{want}, got, emptyIsNil); d != "" {
			f.Fatalf("list differs from get (-get +list):\n%s", d)
		}
		cs, err := f.s.Get(f.ctx(), []string{"a"}, store.GetOptions{NoBlobs: true})
		f.ok(err)
		if d := cmp.Diff([]*store.Command{want}, cs, emptyIsNil); d != "" {
			f.Fatalf("get without blobs differs (-want +got):\n%s", d)
		}
	}},
	{"pages", "pages cover every command once, whatever their size", func(f *fixture) {
		f.submit(many("a", 95)...)
		for _, limit := range []int{0, 1, 7, 95, 96, store.MaxItems} {
			r := inQ(store.Pending)
			r.Limit = limit
			seen := map[string]int{}
			for _, c := range f.listAll(r) {
				seen[c.ID]++
			}
			f.check(len(seen) == 95, "limit %d: %d commands", limit, len(seen))
			for id, n := range seen {
				f.check(n == 1, "limit %d: %s came %d times", limit, id, n)
			}
		}
	}},
	{"newest_end_first", "finished commands come newest end first, over all pages", func(f *fixture) {
		f.submit(many("a", 40)...)
		cs := f.claim("w1", store.Intake, 40)
		var want []string
		for i := range cs {
			c := cs[(i*17)%40]
			f.settle(c, store.OutcomeDone)
			want = append([]string{c.ID}, want...)
			f.Advance(time.Millisecond)
		}
		r := inQ(store.Succeeded)
		r.Limit = 9
		got := ids(f.listAll(r))
		f.check(slices.Equal(got, want), "got %v\nwant %v", got, want)
	}},
	{"filters", "queue, status, reason, type, group, place and age narrow a list", func(f *fixture) {
		f.submit(sub("a", func(s *store.Submission) { s.Type = "t2" }), sub("b", func(s *store.Submission) { s.Group = "g" }), sub("c", func(s *store.Submission) { s.Queue = "q2" }))
		f.Advance(time.Second)
		f.submit(sub("d"), sub("later", func(s *store.Submission) { s.Delay = time.Hour }))
		for _, x := range []struct {
			want   []string
			change func(*store.ListRequest)
		}{
			{[]string{"a", "b", "d", "later"}, func(*store.ListRequest) {}},
			{[]string{"a"}, func(r *store.ListRequest) { r.Filter.Type = "t2" }},
			{[]string{"b"}, func(r *store.ListRequest) { r.Filter.Group = "g" }},
			{[]string{"c"}, func(r *store.ListRequest) { r.Filter.Queue = "q2" }},
			{[]string{"later"}, func(r *store.ListRequest) { r.Place = store.Scheduled }},
			{[]string{"a", "b", "d"}, func(r *store.ListRequest) { r.Place = store.InLine }},
			{nil, func(r *store.ListRequest) { r.Place = store.Leased }},
			{nil, func(r *store.ListRequest) { r.Filter.Status = store.Processing }},
			{[]string{"a", "b"}, func(r *store.ListRequest) { r.Filter.Before = f.now }},
			{[]string{"d", "later"}, func(r *store.ListRequest) { r.Filter.After = f.now }},
		} {
			r := inQ(store.Pending)
			x.change(&r)
			got := ids(f.listAll(r))
			slices.Sort(got)
			f.check(slices.Equal(got, x.want), "%+v: %v, not %v", r, got, x.want)
		}
		for i, c := range f.claim("w1", store.Intake, 2) {
			f.settle(c, store.OutcomeFail, func(s *store.Settlement) { s.Reason = store.Reasons[i] })
		}
		r := inQ(store.Failed)
		r.Filter.Reason = store.Reasons[1]
		f.check(len(f.listAll(r)) == 1 && len(f.listAll(inQ(store.Failed))) == 2, "by reason: %v", ids(f.listAll(r)))
	}},
	{"stays_once", "a command that stays where it is appears once while others come and go between the pages", func(f *fixture) {
		f.submit(many("a", 60)...)
		r := inQ(store.Pending)
		r.Limit = 10
		seen := map[string]int{}
		for i := range 31 {
			p, err := f.s.List(f.ctx(), r)
			f.ok(err)
			for _, c := range p.Commands {
				seen[c.ID]++
			}
			f.submit(sub(fmt.Sprintf("new-%d", i)))
			f.cancel(fmt.Sprintf("a-%04d", i*2+1))
			if r.Cursor = p.Cursor; r.Cursor == "" {
				break
			}
			f.check(i < 30, "the list does not end")
		}
		for i := 0; i < 60; i += 2 {
			id := fmt.Sprintf("a-%04d", i)
			f.check(seen[id] == 1, "%s stayed where it is and appeared %d times", id, seen[id])
		}
	}},
	{"invalid", "a list without queue or status, or with too large a page, is refused", func(f *fixture) {
		for name, r := range map[string]store.ListRequest{
			"no queue": {Filter: store.Filter{Status: store.Pending}}, "no status": {Filter: store.Filter{Queue: "q"}},
			"limit": {Filter: store.Filter{Queue: "q", Status: store.Pending}, Limit: store.MaxItems + 1}, "negative": {Filter: store.Filter{Queue: "q", Status: store.Pending}, Limit: -1},
		} {
			_, err := f.s.List(f.ctx(), r)
			f.check(isErr(err, store.ErrInvalid), "%s: %v", name, err)
		}
	}},
	{"get_many", "a read answers in the order of its ids, nil for a missing one, the same id twice", func(f *fixture) {
		f.submit(many("a", 3)...)
		cs, err := f.s.Get(f.ctx(), []string{"a-0002", "nobody", "a-0000", "a-0002"}, store.GetOptions{})
		f.ok(err)
		f.check(len(cs) == 4 && cs[0].ID == "a-0002" && cs[1] == nil && cs[2].ID == "a-0000" && cs[3].ID == "a-0002", "%v", cs)
		_, err = f.s.Get(f.ctx(), make([]string, store.MaxItems+1), store.GetOptions{})
		f.wrong(err, store.ErrTooLarge)
	}},
}
