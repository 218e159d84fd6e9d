// Package rule holds the decisions of a store as plain functions: what a submit, a claim, a settle, a cancel, a reap and the
// passing of time do to the record of one command, and how clocks and rates move. Nothing here blocks, reads a clock, draws a random number
// or knows an index. memstore and sqlitestore call these functions; the scripts of redisstore repeat them, and the
// conformance suite compares the outcome step by step.
//
// The functions change the *store.Command they are given. A caller compares status and place before and after to keep its
// indexes: an end is a status that became terminal.
package rule
