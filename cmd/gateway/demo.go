package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"taskgate/internal/demo"
)

// demoCmd are the flags of demo.
type demoCmd struct {
	Once bool `help:"End with the story; do not serve on."`
	Fast bool `help:"Use short times, as tests do."`
}

// Run gives the demonstration. A reader of its output that goes away ends it
// like an interrupt does, so that nothing it started is left behind.
func (c *demoCmd) Run() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	return demo.Run(ctx, demo.Options{Gateway: []string{self, "serve"}, Out: os.Stdout, Once: c.Once, Fast: c.Fast})
}
