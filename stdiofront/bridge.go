// Package stdiofront lets a host that starts its servers as programs and speaks
// to them on stdin and stdout use an MCP endpoint of HTTP. It carries messages and
// adds the headers; what they mean is for the two ends.
package stdiofront

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"taskgate/wire"
)

// Options of a Bridge. Every one must be set.
type Options struct {
	Client *http.Client
	// URL is that of the endpoint.
	URL string
	// MaxMessage, in bytes, bounds one message either way.
	MaxMessage int
	// Finish is how long requests may go on when the host has closed stdin.
	Finish time.Duration
	// Again is how long to wait before a stream that has ended is opened again.
	Again time.Duration
}

// Bridge carries the messages of one host.
type Bridge struct {
	opts Options

	out      sync.Mutex // one line at a time
	w        io.Writer
	requests sync.WaitGroup

	mu      sync.Mutex
	session string                        // "": none, or the host speaks 2026-07-28
	version string                        // of the session
	modern  map[string]context.CancelFunc // requests of 2026-07-28 by id
}

// New returns a Bridge.
func New(o Options) *Bridge {
	return &Bridge{opts: o, modern: map[string]context.CancelFunc{}}
}

// Run carries what comes from in, line by line, and writes what comes back to out.
// It ends with ctx, or when in has ended and so have the requests. The error says
// that in or out broke.
func (b *Bridge) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	b.w = out
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines := make(chan []byte)
	read := make(chan error, 1)
	go func() { read <- b.read(ctx, in, lines) }() // ends with in, which nobody can interrupt
	for {
		select {
		case line := <-lines:
			b.take(ctx, line)
		case err := <-read:
			b.finish(ctx)
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

func (b *Bridge) read(ctx context.Context, in io.Reader, lines chan<- []byte) error {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, b.opts.MaxMessage)
	for scanner.Scan() {
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			continue
		}
		select {
		case lines <- bytes.Clone(scanner.Bytes()):
		case <-ctx.Done():
			return nil
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read stdin: %w", err)
	}
	return nil
}

// finish lets what was asked be answered, and ends the session.
func (b *Bridge) finish(ctx context.Context) {
	done := make(chan struct{})
	go func() { b.requests.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(b.opts.Finish):
	case <-ctx.Done():
	}
	if b.inSession() {
		_ = b.exchange(ctx, http.MethodDelete, nil, nil, "") // it ends by its time, too
	}
}

// take sends one message on. The others wait for initialize, since they need the
// session that it opens.
func (b *Bridge) take(ctx context.Context, line []byte) {
	msg, rpc := wire.Decode(line)
	switch {
	case rpc != nil:
		b.write(wire.Failure(msg.ID, rpc).Bytes())
	case msg.Method == "initialize":
		b.send(ctx, msg, line)
	case msg.Method == "notifications/cancelled" && b.cancel(msg):
	default:
		b.requests.Go(func() { b.send(ctx, msg, line) })
	}
	if msg.Method == "notifications/initialized" {
		go b.listen(ctx)
	}
}

// cancel ends a request of 2026-07-28, whose cancellation is the end of its stream.
func (b *Bridge) cancel(msg wire.Message) bool {
	params, _ := wire.ParseObject(msg.Params)
	b.mu.Lock()
	defer b.mu.Unlock()
	end := b.modern[string(params.Get("requestId"))]
	if end != nil {
		end()
	}
	return end != nil
}

// write writes a message as one line.
func (b *Bridge) write(msg []byte) {
	line := bytes.Map(func(r rune) rune { // a line break in JSON is white space between tokens
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, msg)
	b.out.Lock()
	defer b.out.Unlock()
	_, _ = b.w.Write(append(line, '\n')) // a host that is gone closes stdin too
}
