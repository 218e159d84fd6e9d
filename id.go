package twolane

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"
)

// An id is 26 letters and digits of Crockford's base 32: 48 bits of milliseconds since 1970, then 80 random bits, so that ids sort
// by time and clash nowhere. Within one process each is greater than the one before, also within a millisecond and when the clock steps back.
const idAlphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

var ids idSource

type idSource struct {
	mu   sync.Mutex
	last uint64 // milliseconds
	hi   uint16 // of the 80 bits
	lo   uint64
}

// next draws the next id at time now.
func (s *idSource) next(now time.Time) string {
	s.mu.Lock()
	ms := uint64(max(0, now.UnixMilli()))
	if ms > s.last {
		s.draw(ms)
	} else if s.lo++; s.lo == 0 {
		if s.hi++; s.hi == 0 { // 2^80 ids in one millisecond
			s.draw(s.last + 1)
		}
	}
	ms, hi, lo := s.last, s.hi, s.lo
	s.mu.Unlock()

	var b [26]byte
	for i := 9; i >= 0; i-- {
		b[i] = idAlphabet[ms&31]
		ms >>= 5
	}
	for i := 25; i >= 10; i-- {
		b[i] = idAlphabet[lo&31]
		lo = lo>>5 | uint64(hi&31)<<59
		hi >>= 5
	}
	return string(b[:])
}

func (s *idSource) draw(ms uint64) {
	var b [10]byte
	rand.Read(b[:]) // never fails
	s.last, s.hi, s.lo = ms, binary.BigEndian.Uint16(b[:2]), binary.BigEndian.Uint64(b[2:])
}
