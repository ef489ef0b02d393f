// Command bench measures the gateway beside what a user would take instead: it
// builds and starts all of it, puts it under load in turns, prints medians and
// ratios, and writes them into docs/performance.md. It fails on errors only: a
// goal that is missed is shown, not hidden behind an exit code.
//
// It is run by make bench, which installs what it needs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"taskgate/bench/page"
)

// options are the flags.
type options struct {
	bin    string        // directory of the built programs
	npm    string        // directory with node_modules
	rounds int           // of each comparison
	turn   time.Duration // of each case in a round
	parts  []string      // to be measured; none: all
	page   string        // where the figures go; "": nowhere
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "", "directory of the programs that make bench builds")
	flag.StringVar(&o.npm, "npm", "", "directory in which npm has installed mcp-proxy")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each comparison")
	flag.DurationVar(&o.turn, "turn", 2*time.Second, "how long each case runs in a round, in whole seconds for wrk")
	flag.StringVar(&o.page, "page", "", "page to write the figures into")
	parts := flag.String("parts", "", "parts to measure, separated by commas, instead of all: "+strings.Join(names(), ","))
	flag.Parse()
	if *parts != "" {
		o.parts = strings.Split(*parts, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// part is a part of the page: what belongs together and is measured together.
type part struct {
	name    string
	measure func(context.Context, *lab) (string, error)
}

var parts = []part{
	{"pass-through", passThrough},
	{"large", large},
	{"session", session},
	{"create", create},
	{"get", get},
	{"embedded", embedded},
	{"memory", memory},
	{"push", push},
	{"growth", growth},
	{"startup", startup},
	{"decide", decide},
}

func names() []string {
	var all []string
	for _, p := range parts {
		all = append(all, p.name)
	}
	return all
}

func run(ctx context.Context, o options) (err error) {
	for _, name := range o.parts {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("there is no part %q; there are %s", name, strings.Join(names(), ", "))
		}
	}
	l, err := newLab(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	var failed []error // one part that fails does not keep the others from being measured
	for _, p := range parts {
		if len(o.parts) > 0 && !slices.Contains(o.parts, p.name) {
			continue
		}
		if err := p.show(ctx, l); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	return errors.Join(failed...)
}

// show measures the part, prints what it found, and puts it on the page.
func (p part) show(ctx context.Context, l *lab) error {
	began := time.Now()
	text, err := p.measure(ctx, l)
	if err != nil {
		return err
	}
	text = "\n" + text + "\n" + conditions(l.opts, time.Since(began)) + "\n"
	fmt.Printf("## %s\n%s", p.name, text)
	if l.opts.page == "" {
		return nil
	}
	return page.Replace(l.opts.page, p.name, text)
}

// conditions say when and how a part was measured, and how busy the machine was
// with other things and with this.
func conditions(o options, took time.Duration) string {
	load, _ := os.ReadFile("/proc/loadavg")
	average, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("<sub>%s, %d rounds of %v, took %v; load average at the end %s.</sub>\n",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), o.rounds, o.turn, took.Round(time.Second), average)
}

// program is a built program.
func (l *lab) program(name string) string { return filepath.Join(l.opts.bin, name) }
