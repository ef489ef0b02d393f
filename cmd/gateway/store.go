package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"taskgate/audit"
	"taskgate/cmd/gateway/app"
	"taskgate/config"
	"taskgate/obs"
	"taskgate/taskroute/boltstore"
)

func storeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "Look after a store; an embedded one while no gateway has it open."}
	cmd.AddCommand(
		&cobra.Command{
			Use: "check PATH", Short: "Look for damage in an embedded store; changes nothing.", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return checkStore(cmd.OutOrStdout(), args[0]) },
		},
		&cobra.Command{
			Use: "compact PATH", Short: "Give the space of expired tasks back to the disk.", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return compactStore(cmd.OutOrStdout(), args[0]) },
		},
		rekeyCommand())
	return cmd
}

func rekeyCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "rekey", Short: "Encrypt all tasks with the first of encryption.keys; in Redis while gateways run.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return rekeyStore(cmd.OutOrStdout(), file) },
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `FILE` of the gateway")
	required(cmd, "config")
	return cmd
}

var errDamaged = errors.New("the store is damaged")

// checkStore prints what is in the store and what is wrong with it.
func checkStore(out io.Writer, path string) error {
	h, err := boltstore.Check(context.Background(), path)
	if err != nil {
		return err
	}
	return report(out, h)
}

func report(w io.Writer, h boltstore.Health) error {
	if _, err := fmt.Fprintf(w, "records: %d, of them open: %d, tombstones: %d, problems: %d\n", h.Tasks, h.Open, h.Tombstones, len(h.Problems)); err != nil {
		return err
	}
	for _, p := range h.Problems {
		if _, err := fmt.Fprintln(w, p); err != nil {
			return err
		}
	}
	if len(h.Problems) > 0 {
		return errDamaged
	}
	return nil
}

// compactStore prints the sizes before and after.
func compactStore(out io.Writer, path string) error {
	before, after, err := boltstore.Compact(path)
	if err == nil {
		_, err = fmt.Fprintf(out, "bytes before: %d, after: %d\n", before, after)
	}
	return err
}

var errNotRekeyed = errors.New("some tasks could not be read and stay as they are; keep the keys that they need")

// rekeyStore prints how many tasks there are, and how many had another key or none.
func rekeyStore(out io.Writer, file string) error {
	cfg, err := config.Load(file, os.Environ(), nil)
	if err != nil {
		return err
	}
	log, err := obs.Logger(string(cfg.Log.Level), string(cfg.Log.Format))
	if err != nil {
		return err
	}
	done, err := app.Rekey(context.Background(), cfg, log, func(id string, err error) {
		log.Error("a task was not encrypted anew", zap.String("taskHash", audit.TaskHash(id)), zap.Error(err))
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "tasks: %d, encrypted anew: %d, not readable: %d\n", done.Records, done.Rewritten, done.Failed); err != nil {
		return err
	}
	if done.Failed > 0 {
		return errNotRekeyed
	}
	return nil
}
