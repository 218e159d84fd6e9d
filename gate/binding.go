package gate

import (
	"fmt"
	"slices"

	"github.com/twolane/twolane/store"
)

// Classes of commands, as a limit that classifies tells them.
const (
	Reserved = "reserved" // within every limit that classifies, or under none
	Overflow = "overflow" // over one
)

// Binding puts a gate before what a worker runs.
type Binding struct {
	Name string // unique in the worker; metrics, logs and explanations use it
	Gate Gate
	// Lanes it is for; empty means intake alone, so that polls of what runs already go on. Cancel visits pass every gate.
	Lanes []store.Lane
	// Queues and Types it is for; empty means all of the worker.
	Queues, Types []string
	// Class lets it see commands of this class alone. A class is known only once a command was claimed: a closed gate gives such commands back.
	Class string
	// Per lets it have a budget of its own for each queue, type or class.
	Per Per
	// ClassOf says the class of a command; nil means Overflow or Reserved.
	ClassOf func(*Job) string
}

// Per says what a binding tells apart.
type Per uint8

const (
	PerQueue Per = 1 << iota
	PerType
	PerClass
)

// ByClass reports whether the binding must see a command to know whether, or under which budget, it is about it.
func (b *Binding) ByClass() bool { return b.Class != "" || b.Per&PerClass != 0 }

// On reports whether the binding is about a lane.
func (b *Binding) On(l store.Lane) bool {
	return len(b.Lanes) == 0 && l == store.Intake || slices.Contains(b.Lanes, l)
}

// Covers reports whether the binding may be about commands of that lane, queue and type.
func (b *Binding) Covers(l store.Lane, queue, typ string) bool {
	return b.On(l) && (len(b.Queues) == 0 || slices.Contains(b.Queues, queue)) && (len(b.Types) == 0 || slices.Contains(b.Types, typ))
}

// ClassName is the class of a command as the binding sees it.
func (b *Binding) ClassName(j *Job) string {
	switch {
	case b.ClassOf != nil:
		return b.ClassOf(j)
	case j.Overflow:
		return Overflow
	}
	return Reserved
}

// Validate checks bindings together; the error names the field.
func Validate(bs []Binding) error {
	seen := map[string]bool{}
	for i := range bs {
		b := &bs[i]
		f := fmt.Sprintf("gates[%d].", i)
		if err := store.ValidName(f+"name", b.Name); err != nil {
			return err
		}
		f = "gates." + b.Name + "."
		switch {
		case seen[b.Name]:
			return invalid(f+"name", "%q is there twice", b.Name)
		case b.Gate == nil:
			return invalid(f+"gate", "is missing")
		case b.Per&^(PerQueue|PerType|PerClass) != 0:
			return invalid(f+"per", "has unknown bits")
		case b.Class != "" && b.Per&PerClass != 0:
			return invalid(f+"class", "is set beside per class: there is one budget then")
		case b.ClassOf != nil && !b.ByClass():
			return invalid(f+"class_of", "is set, but neither class nor per class")
		case b.Class != "" && b.ClassOf == nil && b.Class != Reserved && b.Class != Overflow:
			return invalid(f+"class", "%q is neither %q nor %q", b.Class, Reserved, Overflow)
		}
		for _, l := range b.Lanes {
			if l > store.Repoll {
				return invalid(f+"lanes", "%d is no lane", l)
			}
		}
		for _, list := range [...]struct {
			field string
			names []string
		}{{"queues", b.Queues}, {"types", b.Types}} {
			for j, n := range list.names {
				if err := store.ValidName(f+list.field, n); err != nil {
					return err
				}
				if slices.Contains(list.names[:j], n) {
					return invalid(f+list.field, "%q is there twice", n)
				}
			}
		}
		seen[b.Name] = true
	}
	return nil
}

func invalid(field, format string, a ...any) error {
	return &store.InvalidError{Field: field, Detail: fmt.Sprintf(format, a...)}
}
