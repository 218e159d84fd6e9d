package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// streams are where a verb reads and writes: data to out, messages to err.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// run runs one command line and returns its exit code.
func run(args []string, in io.Reader, out, errs io.Writer) int {
	ctx, stop := interruptible(errs)
	defer stop()
	std := streams{in: in, out: out, err: errs}
	root := newRoot(std)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code, silent := exitCode(ctx, err)
	if !silent {
		fmt.Fprintf(errs, "%s: %v\n", cmd.CommandPath(), err)
		if code == exitUsage {
			fmt.Fprintf(errs, "See '%s --help'.\n", cmd.CommandPath())
		}
	}
	return code
}

func newRoot(std streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "twolane",
		Short: "A durable work queue for commands that live long",
		Long: "twolane keeps commands that live long: submit a command, have exactly one live invocation of it anywhere,\n" +
			"re-check it on time until it is finished, and never freeze, leak or go silent.\n\n" +
			"Exit codes: 0 done, 1 failed or something is wrong, 2 the command line makes no sense, 3 not found,\n" +
			"6 the store does not answer, 130 interrupted.",
		Example:           "  twolane demo\n  twolane bench --store redis://127.0.0.1:6379 --only latency\n  twolane audit --store sqlite:queue.db",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args:              noArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetHelpTemplate(helpTemplate)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	root.AddCommand(newDemo(std), newDemoWorker(std), newBench(std), newBenchWorker(std), newAudit(std), newInference(std), newVersion(std))
	return root
}

// noArgs refuses arguments, and names the verb that was probably meant.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return usagef("takes no arguments, and got %q", args[0])
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("unknown command %q; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return usagef("unknown command %q", args[0])
}

// helpTemplate shows what to type first.
const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}{{if .HasExample}}Examples:
{{.Example}}

{{end}}Usage:{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{else}}
  {{.UseLine}}{{end}}
{{if .HasAvailableSubCommands}}
Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}
{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableSubCommands}}
'{{.CommandPath}} COMMAND --help' says more about a command.
{{end}}`
