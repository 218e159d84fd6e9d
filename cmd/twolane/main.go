// Command twolane shows, measures and checks the queue: twolane demo, bench, audit, version.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
