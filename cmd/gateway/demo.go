package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"taskgate/internal/demo"
)

// demoCmd are the flags of demo.
type demoCmd struct{ Once, Fast bool }

func (c *demoCmd) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "demo", Short: "Watch a slow tool become a task; needs nothing installed.", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.Run() },
	}
	cmd.Flags().BoolVar(&c.Once, "once", false, "end with the story; do not serve on")
	cmd.Flags().BoolVar(&c.Fast, "fast", false, "use short times, as tests do")
	return cmd
}

// Run gives the demonstration.
func (c *demoCmd) Run() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // a reader who goes away is an error; dying of it would leave processes behind
	return demo.Run(ctx, demo.Options{Gateway: []string{self, "serve"}, Out: os.Stdout, Once: c.Once, Fast: c.Fast})
}
