// Command explore visits every state of the model's scenarios and prints what it finds, counterexamples step by step.
//
//	go run ./model/cmd/explore            # all scenarios of the design
//	go run ./model/cmd/explore cancel     # those whose name contains a word
//	go run ./model/cmd/explore -mutants   # the broken rules, with the trace that shows each one
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twolane/twolane/model"
)

func main() {
	mutants := flag.Bool("mutants", false, "explore the broken rules")
	flag.Parse()
	if err := run(*mutants, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(mutants bool, word string) error {
	all := model.Scenarios()
	if mutants {
		all = nil
		for _, m := range append(model.Mutants(), model.Known()...) {
			all = append(all, m.Scenario)
		}
	}
	failed := 0
	for _, sc := range all {
		if !strings.Contains(sc.Name, word) {
			continue
		}
		start := time.Now()
		r, err := model.Explore(sc)
		if err != nil {
			return err
		}
		fmt.Printf("%s (%.1fs)\n", r, time.Since(start).Seconds())
		if len(r.Violations) > 0 {
			failed++
		}
	}
	if failed > 0 && !mutants {
		return fmt.Errorf("%d scenarios break a promise", failed)
	}
	return nil
}
