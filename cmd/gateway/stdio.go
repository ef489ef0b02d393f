package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"taskgate/cmd/gateway/app"
	"taskgate/config"
	"taskgate/internal/pipe"
	"taskgate/obs"
	"taskgate/stdiofront"
)

// stdioCmd are the flags of stdio.
type stdioCmd struct {
	Upstream string
	Store    *string
	Policy   []string
	LogLevel string
}

func (c *stdioCmd) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "stdio", Short: "Serve the program that has started this one, on stdin and stdout.", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.Run() },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.Upstream, "upstream", "", upstreamUsage)
	optional(flags, &c.Store, "store", storeUsage+"; by default a file of this user and upstream")
	flags.StringArrayVar(&c.Policy, "policy", nil, policyUsage)
	flags.StringVar(&c.LogLevel, "log-level", "warn", levelUsage)
	required(cmd, "upstream")
	return cmd
}

// Run serves the host that has started this process, on stdin and stdout.
func (c *stdioCmd) Run() error {
	cfg, err := config.Load("", os.Environ(), c.overlay)
	if err != nil {
		return err
	}
	log, err := obs.Logger(string(cfg.Log.Level), string(cfg.Log.Format))
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // stderr cannot always be synced
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	host := pipe.New()
	a, err := app.NewOn(ctx, cfg, version, log, host)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- a.Run(ctx)
		stop()
	}()
	err = stdiofront.New(stdiofront.Options{
		Client: host.Client(), URL: a.Endpoints()[0], MaxMessage: int(cfg.Upstreams[0].Limits.MaxResponseBytes),
		Finish: cfg.Timeouts.Drain, Again: time.Second,
	}).Run(ctx, os.Stdin, os.Stdout)
	stop()
	return errors.Join(err, <-ended)
}

// infoWait is how long a host waits for what its server can do: a program has to
// start first, perhaps to be installed, and a host asks once.
const infoWait = time.Minute

func (c *stdioCmd) overlay(cfg *config.Config) error {
	cfg.AdminListen = ""
	cfg.Timeouts.InfoWait = infoWait
	cfg.Identity = nil // the host has started this process: it is the only caller
	set(&cfg.Store, c.Store)
	set(&cfg.Log.Level, &c.LogLevel)
	if len(c.Policy) > 0 {
		cfg.Policy = c.Policy
	}
	if cfg.Store == config.Default().Store {
		file, err := storeOf(c.Upstream)
		if err != nil {
			return err
		}
		cfg.Store = config.Store(file)
	}
	return cfg.SetUpstream(c.Upstream)
}

// storeOf is a file of this user, one for each upstream: only one process can have
// an embedded store open.
func storeOf(upstream string) (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("a place for the tasks (give one by --store): %w", err)
	}
	sum := sha256.Sum256([]byte(upstream))
	return filepath.Join(dir, "taskgate", hex.EncodeToString(sum[:8])+".db"), nil
}
