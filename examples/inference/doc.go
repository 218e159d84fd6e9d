// Package inference is an example that runs on one machine: see README.md and run.sh. Its test runs it.
package inference
