package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
	"go.uber.org/zap"

	"taskgate/audit"
	"taskgate/cmd/gateway/app"
	"taskgate/config"
	"taskgate/obs"
	"taskgate/taskroute/boltstore"
)

// storeCmd looks after a store; an embedded one while no gateway has it open.
type storeCmd struct {
	Check   storeCheckCmd   `cmd:"" help:"Look for damage in an embedded store; changes nothing."`
	Compact storeCompactCmd `cmd:"" help:"Give the space of expired tasks back to the disk."`
	Rekey   storeRekeyCmd   `cmd:"" help:"Encrypt all tasks with the first of encryption.keys; in Redis while gateways run."`
}

type storeCheckCmd struct {
	Path string `arg:"" help:"File of the store." type:"existingfile"`
}

var errDamaged = errors.New("the store is damaged")

// Run prints what is in the store and what is wrong with it.
func (c *storeCheckCmd) Run(k *kong.Kong) error {
	h, err := boltstore.Check(context.Background(), c.Path)
	if err != nil {
		return err
	}
	return report(k.Stdout, h)
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

type storeCompactCmd struct {
	Path string `arg:"" help:"File of the store." type:"existingfile"`
}

// Run prints the sizes before and after.
func (c *storeCompactCmd) Run(k *kong.Kong) error {
	before, after, err := boltstore.Compact(c.Path)
	if err == nil {
		_, err = fmt.Fprintf(k.Stdout, "bytes before: %d, after: %d\n", before, after)
	}
	return err
}

type storeRekeyCmd struct {
	Config string `help:"Configuration file of the gateway." type:"path" placeholder:"FILE" required:""`
}

var errNotRekeyed = errors.New("some tasks could not be read and stay as they are; keep the keys that they need")

// Run prints how many tasks there are, and how many had another key or none.
func (c *storeRekeyCmd) Run(k *kong.Kong) error {
	cfg, err := config.Load(c.Config, os.Environ(), nil)
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
	if _, err := fmt.Fprintf(k.Stdout, "tasks: %d, encrypted anew: %d, not readable: %d\n", done.Records, done.Rewritten, done.Failed); err != nil {
		return err
	}
	if done.Failed > 0 {
		return errNotRekeyed
	}
	return nil
}
