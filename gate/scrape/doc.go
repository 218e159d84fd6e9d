// Package scrape makes a gate of a metric that an endpoint shows in the text format of Prometheus, without a Prometheus.
package scrape
