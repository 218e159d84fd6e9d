package gate

import "time"

// Constant is a gate that is always open by the same budget.
type Constant float64

// Read implements [Gate].
func (c Constant) Read(time.Time, Scope) Reading {
	return Reading{Budget: float64(c), Value: float64(c), Threshold: None, Up: true}
}
