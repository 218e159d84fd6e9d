// Package faults holds tests of faults that other queues had, from end to end: a client, workers and a store. docs/faults.md lists
// every such fault with the test that holds it, here or beside the code that it is about.
package faults
