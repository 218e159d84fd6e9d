// Package store is the service provider interface of twolane: what a durable store of commands promises to the
// engine above it. Programs do not call it; they use package twolane with one of the stores beside this package.
//
// # One atomic step
//
// Record, place, lease, indexes and limits of a command change in one atomic operation of the [Store] (one Lua
// script, one SQL transaction, one mutex). Every live command is in exactly one [Place]; the commands in place
// [Leased] and the leases are the same set. What may happen to a command in one step is written as plain functions in
// package store/rule; the stores keep, compare and index.
//
// # Clocks
//
// The store's own clock is the only judge. Three numbers are kept beside the data and advance only in [Store.Claim],
// [Store.Renew] and [Store.Maintain] (see rule.Clocks): "run" for polls, backoff and rates, "lease" for leases, and the
// server time itself for the times that users give (not_before, start_by, deadline, pause until, retention). All points in
// time are [Millis]; requests carry durations, so no worker's clock is ever compared with the store's.
//
// # Calls
//
// Every method may be called concurrently. A method blocks until its context ends at the longest, never retries by itself and
// never sleeps on an error: an error of the call means that the step may or may not have been made, and the caller repeats it.
// Every call is safe to repeat: Submit by id, Claim by nonce, Renew and Settle by lease name. Errors about one item are in the
// item's result. Slices and commands passed in are not kept by the store; those returned belong to the caller, except
// byte slices, which neither side may modify. No call takes more than [MaxItems] items.
//
// # Optional abilities
//
// [Describer] says what a store means for durability; [Clocker] lets tests own the store's clock; [ListPusher] hands outbox entries over to
// lists of the same database.
package store
