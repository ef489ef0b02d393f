package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"taskgate/taskroute/boltstore"
)

// storeCmd looks after an embedded store while no gateway has it open.
type storeCmd struct {
	Check   storeCheckCmd   `cmd:"" help:"Look for damage in an embedded store; changes nothing."`
	Compact storeCompactCmd `cmd:"" help:"Give the space of expired tasks back to the disk."`
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
