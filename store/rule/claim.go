package rule

import (
	"fmt"
	"slices"

	"github.com/twolane/twolane/store"
)

// ValidClaim checks the bounds and names of a claim.
func ValidClaim(r *store.ClaimRequest) error {
	bad := func(field, detail string, a ...any) error {
		return &store.InvalidError{Field: field, Detail: fmt.Sprintf(detail, a...)}
	}
	if err := store.ValidName("worker", r.Worker); err != nil {
		return err
	}
	if len(r.Nonce) < 8 || len(r.Nonce) > 32 {
		return bad("nonce", "has %d bytes, not 8 to 32", len(r.Nonce))
	}
	for _, b := range []byte(r.Nonce) {
		if !(b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z') {
			return bad("nonce", "has byte %q; allowed are A-Z a-z 0-9", b)
		}
	}
	if r.Free[0] < 0 || r.Free[1] < 0 {
		return bad("free", "is negative")
	}
	if r.Free[0] > store.MaxItems || r.Free[1] > store.MaxItems || r.Free[0]+r.Free[1] > store.MaxItems {
		return &store.InvalidError{Field: "free", Detail: fmt.Sprintf("asks for more than %d", store.MaxItems), Max: store.MaxItems}
	}
	if r.MaxBytes < 0 {
		return bad("max_bytes", "is negative")
	}
	if len(r.Rooms) > store.MaxItems {
		return &store.InvalidError{Field: "rooms", Detail: fmt.Sprintf("are more than %d", store.MaxItems), Max: store.MaxItems}
	}
	for _, n := range r.Rooms {
		if n < 0 {
			return bad("rooms", "has a negative one")
		}
	}
	for i := range r.Wants {
		w := &r.Wants[i]
		if err := store.ValidName("wants.queue", w.Queue); err != nil {
			return err
		}
		if w.Lane > store.Repoll {
			return bad("wants.lane", "%d is unknown", w.Lane)
		}
		if w.Max < 0 || w.Turn < 0 {
			return bad("wants", "has a negative max or turn")
		}
		for _, t := range w.Types {
			if err := store.ValidName("wants.type", t.Type); err != nil {
				return err
			}
			if t.Batch < 0 || t.Batch > store.MaxItems {
				return bad("wants.types."+t.Type, "has a batch of %d", t.Batch)
			}
			for i, n := range t.Rooms {
				if n < 0 || n >= len(r.Rooms) || slices.Contains(t.Rooms[:i], n) {
					return bad("wants.types."+t.Type, "has room %d, which is not there or comes twice", n)
				}
			}
		}
	}
	return nil
}

// Rooms are what is left of the rooms of a claim.
type Rooms []int

// RoomsOf are the rooms of a claim that has granted nothing.
func RoomsOf(r *store.ClaimRequest) Rooms { return slices.Clone(r.Rooms) }

// Full reports whether an invocation of a type and class finds no place.
func (r Rooms) Full(t *store.TypeWant, class store.Class) bool {
	return !class.Visit() && slices.ContainsFunc(t.Rooms, func(i int) bool { return r[i] <= 0 })
}

// Take takes a place for an invocation that was granted.
func (r Rooms) Take(t *store.TypeWant, class store.Class) {
	if class.Visit() {
		return
	}
	for _, i := range t.Rooms {
		r[i]--
	}
}
