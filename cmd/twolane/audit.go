package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/twolane/twolane/internal/openstore"
)

// auditReport is what scripts read.
type auditReport struct {
	Store      string   `json:"store"`
	Commands   int      `json:"commands"`
	Leased     int      `json:"leased"`
	Violations []string `json:"violations"`
}

func newAudit(std streams) *cobra.Command {
	var url string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "audit --store URL", Short: "Prove every invariant of a store, also of a live one", Args: noArgs,
		Long: "Audit reads a whole store and proves that every live command is in exactly one place, that the leases are those of the\n" +
			"leased commands, and every other invariant. It changes nothing. The exit code is 1 if something is wrong.",
		Example: "  twolane audit --store sqlite:queue.db\n  twolane audit --store redis://127.0.0.1:6379 --json",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if url == "" {
				return usagef("--store is required")
			}
			if openstore.Kind(url) == openstore.Memory {
				return usagef("--store mem: is a new, empty store; there is nothing to audit")
			}
			st, err := openstore.Open(cmd.Context(), url, &openstore.Options{MustExist: true})
			if err != nil {
				return storeError(err)
			}
			defer func() { err = errors.Join(err, st.Close()) }()
			found, err := st.Audit(cmd.Context())
			if err != nil {
				return err
			}
			report := auditReport{Store: openstore.Redacted(url), Commands: found.Commands, Leased: found.Leased, Violations: found.Violations}
			if err := report.print(std, asJSON); err != nil {
				return err
			}
			if len(report.Violations) > 0 {
				return errReported
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&url, "store", "", "the store: sqlite:PATH or redis://…")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (r auditReport) print(std streams, asJSON bool) error {
	if asJSON {
		if r.Violations == nil {
			r.Violations = []string{}
		}
		return json.NewEncoder(std.out).Encode(r)
	}
	for _, v := range r.Violations {
		if _, err := fmt.Fprintln(std.out, v); err != nil {
			return err
		}
	}
	verdict := "ok"
	switch n := len(r.Violations); n {
	case 0:
	case 1:
		verdict = "1 violation"
	default:
		verdict = fmt.Sprintf("%d violations", n)
	}
	_, err := fmt.Fprintf(std.out, "%s: %d commands, %d leases in %s\n", verdict, r.Commands, r.Leased, r.Store)
	return err
}

// storeError makes a URL that cannot be understood a matter of usage.
func storeError(err error) error {
	if errors.Is(err, openstore.ErrURL) {
		return usage(err)
	}
	return err
}
