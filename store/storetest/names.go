package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twolane/twolane/store"
)

var namesCases = []kase{
	{"F152_names", "ids, queues, types, groups, keys, batch keys, unique keys and topics are checked, and the error names the field", func(f *fixture) {
		fields := map[string]func(s *store.Submission, v string){
			"id": func(s *store.Submission, v string) { s.ID = v }, "queue": func(s *store.Submission, v string) { s.Queue = v },
			"type": func(s *store.Submission, v string) { s.Type = v }, "group": func(s *store.Submission, v string) { s.Group = v },
			"batch_key": func(s *store.Submission, v string) { s.BatchKey = v }, "unique_key": func(s *store.Submission, v string) { s.UniqueKey = v },
			"notify":    func(s *store.Submission, v string) { s.Notify = v },
			"keys.name": func(s *store.Submission, v string) { s.Keys = []store.Key{{Name: v, Value: "v"}} },
			"keys.k":    func(s *store.Submission, v string) { s.Keys = []store.Key{{Name: "k", Value: v}} },
		}
		for field, set := range fields {
			for _, v := range []string{"a b", "{a}", "a\x00", "\xff", "é", ".a", "-a", strings.Repeat("x", 129), "a\n", "\ud7ff"} {
				s := sub("a")
				set(&s, v)
				err := f.trySubmit(s)[0].Err
				var inv *store.InvalidError
				f.check(errors.As(err, &inv) && inv.Field == field && errors.Is(err, store.ErrInvalid), "%s %q: %v", field, v, err)
			}
			s := sub("a-" + strings.ReplaceAll(field, ".", "_"))
			set(&s, "Aa0._:@/-"+field)
			f.check(f.trySubmit(s)[0].Err == nil, "%s with every allowed byte: %v", field, f.trySubmit(s)[0].Err)
		}
		f.submit(sub(strings.Repeat("x", 128)), sub("Case"), sub("case"))
		f.check(f.get("Case").ID == "Case" && f.get("case").ID == "case", "names are folded")
	}},
	{"F135_sizes", "what is larger than its limit is refused with an error that is ErrTooLarge and says the limit; the limit itself is accepted", func(f *fixture) {
		wide := func(n int) map[string]string { return map[string]string{"k": strings.Repeat("v", n-1)} }
		lots := func(n int) map[string]string {
			m := map[string]string{}
			for i := range n {
				m[fmt.Sprint("k", i)] = "v"
			}
			return m
		}
		keys := func(n int) []store.Key {
			var ks []store.Key
			for i := range n {
				ks = append(ks, store.Key{Name: fmt.Sprint("k", i), Value: "v"})
			}
			return ks
		}
		for i, e := range []struct {
			max int
			set func(s *store.Submission, n int)
		}{
			{store.MaxParams, func(s *store.Submission, n int) { s.Params = make([]byte, n) }},
			{store.MaxMetadata, func(s *store.Submission, n int) { s.Metadata = wide(n) }},
			{store.MaxMetadataKeys, func(s *store.Submission, n int) { s.Metadata = lots(n) }},
			{store.MaxKeys, func(s *store.Submission, n int) { s.Keys = keys(n) }},
		} {
			s := sub(fmt.Sprint("fits", i))
			e.set(&s, e.max)
			f.check(f.trySubmit(s)[0].Err == nil, "%d at its limit", i)
			s = sub(fmt.Sprint("large", i))
			e.set(&s, e.max+1)
			err := f.trySubmit(s)[0].Err
			var inv *store.InvalidError
			f.check(errors.Is(err, store.ErrTooLarge) && errors.As(err, &inv) && inv.Max == e.max, "%d over its limit: %v", i, err)
		}
		f.check(len(f.get("fits0").Params) == store.MaxParams, "the largest params did not come back")
	}},
	{"values", "values that mean nothing are refused: negative or far times, a cost out of bounds, unsorted or double keys", func(f *fixture) {
		for name, change := range map[string]func(*store.Submission){
			"negative cost": func(s *store.Submission) { s.Cost = -1 }, "cost 65": func(s *store.Submission) { s.Cost = 65 },
			"negative delay": func(s *store.Submission) { s.Delay = -1 }, "deadline of 2300": func(s *store.Submission) { s.Deadline = 10_413_792_000_000 },
			"negative start_by": func(s *store.Submission) { s.StartBy = -5 }, "max_failures": func(s *store.Submission) { s.MaxFailures = -1 },
			"unsorted keys":       func(s *store.Submission) { s.Keys = []store.Key{{Name: "b", Value: "1"}, {Name: "a", Value: "1"}} },
			"double key":          func(s *store.Submission) { s.Keys = []store.Key{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}} },
			"empty metadata name": func(s *store.Submission) { s.Metadata = map[string]string{"": "v"} },
		} {
			f.wrong(f.trySubmit(sub("a", change))[0].Err, store.ErrInvalid)
			f.check(f.get("a") == nil, "%s was stored", name)
		}
	}},
}
