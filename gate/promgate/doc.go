// Package promgate makes gates of what Prometheus knows, and of whatever speaks its HTTP API.
//
// A [Client] asks; [NewQuery], [NewSaturation] and [NewBudget] make gates of the answers. What Prometheus knows of a load is as old as its
// last scrape, so these gates have a lag (15 seconds unless it is set) and are opened in steps. An answer that is not one number, in
// particular no series or more than one, is no reading: a gate that took the first of several would be right by chance.
package promgate
