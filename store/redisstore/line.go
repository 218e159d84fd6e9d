package redisstore

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"

	"github.com/twolane/twolane/store"
)

// lineDef is what the commands of a line have in common, but for lane and class: those are letters behind the base, so that a script can name
// the sibling line by itself. The base is the beginning of the hash of the definition; a script can compute it too.
type lineDef struct {
	base  string
	text  string // queue type group batch-key cost and key=value pairs, each followed by a blank
	queue string
	typ   string
	group string
	batch string
	cost  int
	keys  []store.Key
}

const baseLen = 16

// baseOf is the base of a definition.
func baseOf(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:baseLen/2])
}

// lineText is the definition of the line of a submission.
func lineText(b []byte, s *store.Submission) []byte {
	for _, f := range [...]string{s.Queue, s.Type, s.Group, s.BatchKey} {
		b = append(append(b, f...), ' ') // no name contains a blank
	}
	b = append(strconv.AppendInt(b, int64(max(1, s.Cost)), 10), ' ')
	for _, k := range s.Keys {
		b = append(append(append(append(b, k.Name...), '='), k.Value...), ' ')
	}
	return b
}

// parseLine reads a definition.
func parseLine(text string) (*lineDef, bool) {
	f := strings.Split(text, " ")
	if len(f) < 6 || f[len(f)-1] != "" || f[0] == "" || f[1] == "" {
		return nil, false
	}
	cost, err := strconv.Atoi(f[4])
	if err != nil {
		return nil, false
	}
	d := &lineDef{text: text, queue: f[0], typ: f[1], group: f[2], batch: f[3], cost: cost}
	for _, kv := range f[5 : len(f)-1] {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, false
		}
		d.keys = append(d.keys, store.Key{Name: k, Value: v})
	}
	d.base = baseOf(text)
	return d, true
}

// lineCache remembers definitions by their text. It forgets all when it is full, so that many short-lived lines do not pile up.
type lineCache struct {
	mu sync.RWMutex
	m  map[string]*lineDef
}

const lineCacheSize = 4096

func (c *lineCache) get(text string) (*lineDef, bool) {
	c.mu.RLock()
	d := c.m[text]
	c.mu.RUnlock()
	if d != nil {
		return d, true
	}
	text = strings.Clone(text)
	d, ok := parseLine(text)
	if !ok {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.m[text]; d != nil { // somebody was faster
		return d, true
	}
	if c.m == nil || len(c.m) >= lineCacheSize {
		c.m = make(map[string]*lineDef)
	}
	c.m[text] = d
	return d, true
}

// of returns the line of a submission.
func (c *lineCache) of(s *store.Submission) *lineDef {
	var buf [256]byte
	text := lineText(buf[:0], s)
	c.mu.RLock()
	d := c.m[string(text)]
	c.mu.RUnlock()
	if d == nil {
		d, _ = c.get(string(text)) // a valid submission makes a valid definition
	}
	return d
}
