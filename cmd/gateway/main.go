// Command gateway is an MCP reverse proxy that turns slow tool calls into
// durable tasks.
package main

import (
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

// version is set by the linker.
var version = "dev"

type cli struct {
	Serve   serveCmd   `cmd:"" help:"Serve MCP clients in front of one or more MCP servers."`
	Stdio   stdioCmd   `cmd:"" help:"Serve the program that has started this one, on stdin and stdout."`
	Check   checkCmd   `cmd:"" help:"Check policy files."`
	Explain explainCmd `cmd:"" help:"Say what policy makes of a call, and why."`
	Store   storeCmd   `cmd:"" help:"Look after a store; an embedded one while no gateway has it open."`
	Demo    demoCmd    `cmd:"" help:"Watch a slow tool become a task; needs nothing installed."`
	Version versionCmd `cmd:"" help:"Print the version."`
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run() error {
	fmt.Println(version)
	return nil
}

func main() {
	var c cli
	k := kong.Parse(&c, kong.Name("gateway"),
		kong.Description("Durable MCP tasks in front of servers that answer synchronously."),
		kong.UsageOnError())
	if err := k.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}
