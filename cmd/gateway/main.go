// Command gateway is an MCP reverse proxy that turns slow tool calls into
// durable tasks.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is set by the linker.
var version = "dev"

func main() {
	if err := program().Execute(); err != nil {
		os.Exit(1)
	}
}

// program is the root of the commands.
func program() *cobra.Command {
	root := &cobra.Command{
		Use: "gateway", Short: "Durable MCP tasks in front of servers that answer synchronously.",
		SilenceUsage: true, // few errors are about flags
	}
	root.SetErrPrefix("gateway:")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists the flags", err, cmd.CommandPath())
	})
	root.AddCommand(new(serveCmd).command(), new(stdioCmd).command(), new(checkCmd).command(),
		new(explainCmd).command(), storeCommand(), new(demoCmd).command(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version.", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), version) },
	}
}

// required makes the command refuse to go without the flag.
func required(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagRequired(flag); err != nil {
		panic(err) // the command has no such flag: a mistake in this package
	}
}

// optional adds a flag that stays nil when it is not given.
func optional(flags *pflag.FlagSet, value **string, name, usage string) {
	flags.Func(name, usage, func(s string) error {
		*value = &s
		return nil
	})
}
