// Package storetest is the conformance suite of [store.Store]: every store runs [Run] and [RunRandom] with a [Harness] that opens it.
//
// A case states the rule that it checks, and prints it when it fails. The suite never asks which store it tests; what a store can do
// beside the interface is said by the harness. Every case owns the clock of a namespace of its own and ends with Audit.
package storetest
