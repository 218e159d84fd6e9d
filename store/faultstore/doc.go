// Package faultstore makes a store fail on purpose, call by call: before the step is made, after it was made and with its answer lost, late, or
// not at all until somebody heals it. Tests of what survives such faults wrap the store that they would use anyway.
//
//	faults := faultstore.New(1)
//	s := faults.Wrap(memstore.New())
//	faults.Inject(faultstore.Rule{Ops: []faultstore.Op{faultstore.Settle}, Fault: faultstore.DropReply, Count: 1})
//
// What happens is decided by the rules, by how often an operation was called, and by the seed; never by time or by the order in
// which goroutines run beside each other.
package faultstore
