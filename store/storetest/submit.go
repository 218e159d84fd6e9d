package storetest

import (
	"bytes"
	"time"

	"github.com/twolane/twolane/store"
)

var submitCases = []kase{
	{"known_id", "an id that is known with the same contents answers Created false and no error", func(f *fixture) {
		a := sub("a")
		r := f.trySubmit(a)[0]
		f.check(r.Created && r.Err == nil && r.Status == store.Pending, "first submit: %+v", r)
		r = f.trySubmit(a)[0]
		f.check(!r.Created && r.Err == nil && r.Status == store.Pending, "second submit: %+v", r)
		f.claim1("w1", store.Intake, "a")
		f.check(len(f.claim("w1", store.Intake, 10)) == 0, "the command is there twice")
	}},
	{"record", "a record carries what was submitted, field by field", func(f *fixture) {
		s := store.Submission{
			ID: "a", Queue: "q", Type: "t", Group: "g", BatchKey: "b", Keys: []store.Key{{Name: "k1", Value: "v1"}, {Name: "k2", Value: "v2"}},
			Cost: 3, Params: []byte("p"), UniqueKey: "u", Notify: "topic", Priority: 7, Metadata: map[string]string{"m": "1"},
			NotBefore: epoch + 1000, StartBy: epoch + 100_000, Deadline: epoch + 200_000, MaxFailures: 4, Retention: time.Hour,
		}
		f.submit(s)
		c := f.get("a")
		f.check(c.Group == "g" && c.BatchKey == "b" && len(c.Keys) == 2 && c.Keys[1] == s.Keys[1] && c.Cost == 3 && bytes.Equal(c.Params, s.Params) &&
			c.UniqueKey == "u" && c.Notify == "topic" && c.Priority == 7 && c.Metadata["m"] == "1" && c.NotBefore == s.NotBefore && c.StartBy == s.StartBy &&
			c.Deadline == s.Deadline && c.MaxFailures == 4 && c.Retention == time.Hour && c.Created == epoch && c.Fingerprint != 0, "%+v", c)
		f.check(c.Place == store.Scheduled && c.Eligible == 0 && c.Starts == 0, "%s", show(c))
	}},
}
