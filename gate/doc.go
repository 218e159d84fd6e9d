// Package gate turns outside signals into budgets.
//
// What can be counted exactly, how many commands run or how often they start, is a limit and lives in the store. What can only be looked at
// (how loaded a backend is, what an operator wants just now, whether handlers are told to go slower) is a gate. A worker asks its gates before
// each claim, and claims no more than they leave room for. A gate holds no capacity: nothing is taken from it and nothing is given
// back, so nothing can leak.
//
// # Budgets
//
// A [Reading] says which share of a lane's permits may be in use: a budget of 0.3 of 10 permits lets 3 invocations run. A budget above 0
// always admits one. A budget that was measured at what runs comes late: what was just started does not show in it yet. Such a reading has a
// Lag, its budget is room beside what runs, and the worker takes it in steps: one step, and the next only after a reading that is later
// than the last step by the Lag. So a gate that opens over a hundred waiting commands lets one step of them go, not all.
//
// # Verdicts
//
// A gate that is a [Judge] is also asked about each single command before its handler is called: go on, wait, come again later, or be dropped
// with a result. None of them counts as a run or a failure. A command that is to wait can name a key (a tenant, a model) that is closed for
// everybody meanwhile, so that its like wait in the store rather than being claimed and given back one by one.
//
// # No reading
//
// A gate whose source does not answer is closed, unless it was given a fallback, and its reading says that the source is down. A
// budget that is not a number counts as 0.
package gate
