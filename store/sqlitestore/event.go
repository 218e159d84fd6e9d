package sqlitestore

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twolane/twolane/store"
)

// encodeEvents packs the events of c behind those of packed, which c does not repeat, and keeps the last MaxEvents. Nil is no event.
func encodeEvents(c *store.Command, packed []byte) []byte {
	if c.Tombstone {
		return nil
	}
	if len(c.Events) == 0 {
		return packed
	}
	if isElsewhere(packed) {
		panic("sqlitestore: events are added to a record whose events were not read")
	}
	d := decoder{b: packed}
	n := 0
	if len(packed) > 0 {
		n = int(d.uint())
	}
	for ; n > 0 && n+len(c.Events) > store.MaxEvents; n-- {
		d.event()
	}
	fresh := c.Events[max(0, len(c.Events)-store.MaxEvents):]
	e := encoder{b: make([]byte, 0, len(d.b)+1+40*len(fresh))}
	e.uint(uint64(n + len(fresh)))
	e.b = append(e.b, d.b...)
	for _, ev := range fresh {
		e.int(int64(ev.At))
		e.str(string(ev.Kind))
		e.str(ev.Worker)
		e.str(ev.Text)
	}
	return e.b
}

func (d *decoder) event() store.Event {
	return store.Event{At: d.millis(), Kind: store.EventKind(d.str()), Worker: d.str(), Text: d.str()}
}

func decodeEvents(packed []byte) ([]store.Event, error) {
	if len(packed) == 0 {
		return nil, nil
	}
	d := decoder{b: packed}
	n := d.uint()
	var all []store.Event
	for i := uint64(0); i < n && !d.bad; i++ {
		all = append(all, d.event())
	}
	if d.bad {
		return nil, fmt.Errorf("%w: its events", errRecord)
	}
	return all, nil
}

func encodeMetadata(m map[string]string) []byte {
	e := encoder{b: []byte{}}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		e.str(name)
		e.str(m[name])
	}
	return e.b
}

func decodeMetadata(packed []byte) (map[string]string, error) {
	m := map[string]string{}
	d := decoder{b: packed}
	for len(d.b) > 0 {
		name := d.str()
		m[name] = d.str()
	}
	if d.bad {
		return nil, fmt.Errorf("%w: its metadata", errRecord)
	}
	return m, nil
}
