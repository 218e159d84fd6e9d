package rule

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/twolane/twolane/store"
)

// ValidSubmission checks names, sizes and fields that contradict each other; the error names the field.
func ValidSubmission(s *store.Submission) error {
	for _, f := range [...]struct {
		field, value string
		optional     bool
	}{
		{"id", s.ID, false}, {"queue", s.Queue, false}, {"type", s.Type, false}, {"group", s.Group, true},
		{"batch_key", s.BatchKey, true}, {"unique_key", s.UniqueKey, true}, {"notify", s.Notify, true},
	} {
		if f.value == "" && f.optional {
			continue
		}
		if err := store.ValidName(f.field, f.value); err != nil {
			return err
		}
	}
	bad := func(field, detail string) error { return &store.InvalidError{Field: field, Detail: detail} }
	if err := large("keys", len(s.Keys), store.MaxKeys, "entries"); err != nil {
		return err
	}
	for i, k := range s.Keys {
		if err := store.ValidName("keys.name", k.Name); err != nil {
			return err
		}
		if err := store.ValidName("keys."+k.Name, k.Value); err != nil {
			return err
		}
		if i > 0 && s.Keys[i-1].Name >= k.Name {
			return bad("keys", "are not sorted by distinct names")
		}
	}
	if err := large("params", len(s.Params), store.MaxParams, "bytes"); err != nil {
		return err
	}
	if err := large("metadata", len(s.Metadata), store.MaxMetadataKeys, "entries"); err != nil {
		return err
	}
	n := 0
	for k, v := range s.Metadata {
		if k == "" {
			return bad("metadata", "has an empty name")
		}
		n += len(k) + len(v)
	}
	if err := large("metadata", n, store.MaxMetadata, "bytes"); err != nil {
		return err
	}
	switch {
	case s.Cost < 0 || s.Cost > store.MaxCost:
		return bad("cost", fmt.Sprintf("%d is not between 1 and %d", s.Cost, store.MaxCost))
	case s.MaxFailures < 0:
		return bad("max_failures", "is negative")
	case s.MaxFailures > 1<<30:
		return bad("max_failures", "is too large")
	case s.Delay < 0:
		return bad("delay", "is negative")
	}
	for _, t := range [...]struct {
		field string
		at    store.Millis
	}{{"not_before", s.NotBefore}, {"start_by", s.StartBy}, {"deadline", s.Deadline}} {
		if t.at < 0 || t.at > maxTime {
			return bad(t.field, "is not between the years 1970 and 2200")
		}
	}
	if s.Delay.Milliseconds() > int64(maxTime)/2 {
		return bad("delay", "is too long")
	}
	return nil
}

// large refuses more than most of what a field has n of.
func large(field string, n, most int, of string) error {
	if n <= most {
		return nil
	}
	return &store.InvalidError{Field: field, Detail: fmt.Sprintf("has %d %s, at most %d are allowed", n, of, most), Max: most}
}

const maxTime = store.Millis(7258118400000) // 2200-01-01

// Fingerprint is what makes a re-submit of an id the same command: queue, type, params, group and keys.
func Fingerprint(s *store.Submission) uint64 {
	h := sha256.New()
	put := func(b string) {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(b)))
		h.Write(n[:])
		h.Write([]byte(b))
	}
	put(s.Queue)
	put(s.Type)
	put(s.Group)
	for _, k := range s.Keys {
		put(k.Name)
		put(k.Value)
	}
	h.Write(s.Params)
	return binary.BigEndian.Uint64(h.Sum(nil)) | 1 // never 0
}

// New returns the record of a valid submission that arrives as number seq.
func New(now Now, seq uint64, s *store.Submission) *store.Command {
	c := &store.Command{
		ID: s.ID, Queue: s.Queue, Type: s.Type, Group: s.Group, BatchKey: s.BatchKey,
		Keys: append([]store.Key(nil), s.Keys...), Cost: max(1, s.Cost), Params: s.Params, UniqueKey: s.UniqueKey, Notify: s.Notify,
		Priority: s.Priority, NotBefore: s.NotBefore, StartBy: s.StartBy, Deadline: s.Deadline,
		MaxFailures: s.MaxFailures, Retention: s.Retention, Fingerprint: Fingerprint(s),
		Status: store.Pending, Place: store.InLine, Seq: seq, Created: now.Wall, Eligible: now.Wall,
	}
	if s.Metadata != nil {
		c.Metadata = make(map[string]string, len(s.Metadata))
		for k, v := range s.Metadata {
			c.Metadata[k] = v
		}
	}
	if s.Delay > 0 {
		c.NotBefore = max(c.NotBefore, now.Wall.Add(s.Delay))
	}
	if c.NotBefore > now.Wall {
		c.Place, c.Eligible = store.Scheduled, 0
	}
	return c
}

// SortKeys sorts keys by name, as a submission needs them.
func SortKeys(keys []store.Key) {
	sort.Slice(keys, func(i, j int) bool { return keys[i].Name < keys[j].Name })
}
