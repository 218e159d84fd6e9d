// Package prom shows the numbers of twolane to Prometheus.
//
// [New] is the twolane.Metrics of a worker: what one process does. [NewCollector] reads what the store knows at each scrape: what waits, why, and for
// how long. The second is right also when no worker runs, so let at least one process that is always there export it.
//
//	reg := prometheus.NewRegistry()
//	metrics, err := prom.New(reg) // for the worker's Metrics
//	err = reg.Register(prom.NewCollector(client, nil))
//
// Label state of twolane_commands is the place of the living (ready, scheduled, leased, parked) and the status of the dead (succeeded, failed,
// cancelled). No label is ever an id, a worker, a group or an error. What a program can make many of, queues and types, is
// bounded: what is over the bound is added up under "_other".
package prom
