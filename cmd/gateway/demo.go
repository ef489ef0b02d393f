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
