package app

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"taskgate/auth"
)

// Run serves until ctx ends, then drains: it takes no new requests, lets calls
// go on for a while, ends streams properly, and closes everything.
func (a *App) Run(ctx context.Context) error {
	if err := a.runner.Start(ctx); err != nil {
		return errors.Join(fmt.Errorf("store %s: %w", a.cfg.Store, err), a.release(context.WithoutCancel(ctx)))
	}
	house, stopHouse := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHouse()
	var housekeeping sync.WaitGroup // its loops end with house
	housekeeping.Go(func() { _ = a.runner.Run(house) })
	housekeeping.Go(func() { _ = a.policy.Run(house) })
	housekeeping.Go(func() { _ = a.advisor.Run(house) })
	for _, u := range a.upstreams {
		if r, ok := u.(interface{ Run(context.Context) error }); ok { // it has sessions to look after
			housekeeping.Go(func() { _ = r.Run(house) })
		}
	}
	for _, loop := range a.upkeep.loops {
		housekeeping.Go(func() { _ = loop(house) })
	}
	failed := make(chan error, 2)
	front := a.serve(a.listener, a.proxy, a.tls, failed)
	back := a.serve(a.adminListener, a.admin, nil, failed)
	a.log.Info("listening", zap.Strings("endpoints", a.Endpoints()), zap.String("admin", a.AdminURL()), zap.String("store", a.cfg.Store.String()))
	a.proxy.Warm(house)

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	err = errors.Join(err, a.drain(front))
	stopHouse()
	housekeeping.Wait()
	if back != nil {
		_ = back.Close() // nobody waits for an admin page
	}
	return errors.Join(err, a.release(context.WithoutCancel(ctx)))
}

func (a *App) serve(l net.Listener, h http.Handler, files *auth.ListenerFiles, failed chan<- error) *http.Server {
	if l == nil {
		return nil
	}
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: a.cfg.Timeouts.ReadHeader, IdleTimeout: a.cfg.Timeouts.Idle,
		MaxHeaderBytes: int(a.cfg.Limits.MaxHeaderBytes),
		ErrorLog:       log.New(zapWriter{a.log}, "", 0),
	}
	serve := s.Serve
	if files != nil {
		s.TLSConfig = auth.ServerTLS(files)
		serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	go func() {
		if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve %s: %w", l.Addr(), err)
		}
	}()
	return s
}

// lastWords is how long what ends calls and streams may take to reach clients
// when the drain time is over.
const lastWords = time.Second

// drain lets calls end on their own for the drain time.
func (a *App) drain(front *http.Server) error {
	a.log.Info("draining", zap.Int("calls", a.coord.Len()), zap.Duration("atMost", a.cfg.Timeouts.Drain))
	a.admin.Drain()
	a.proxy.CloseStreams()
	a.legacy.CloseStreams()
	ctx, cancel := context.WithTimeout(context.Background(), a.cfg.Timeouts.Drain)
	defer cancel()
	told, cancelTold := context.WithTimeout(context.Background(), a.cfg.Timeouts.Drain+lastWords)
	defer cancelTold()
	stopped := make(chan error, 1)
	go func() { stopped <- front.Shutdown(told) }()
	err := a.runner.Drain(ctx)
	if shutErr := <-stopped; shutErr != nil {
		_ = front.Close() // some client takes nothing
	} else {
		a.legacy.Wait(told) // no other call can begin now
	}
	a.proxy.WaitStreams(told)
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	return nil
}

// zapWriter takes what net/http has to say about single connections.
type zapWriter struct{ log *zap.Logger }

func (w zapWriter) Write(p []byte) (int, error) {
	w.log.Debug("http", zap.ByteString("message", p))
	return len(p), nil
}

// Close ends a gateway that was never Run.
func (a *App) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return a.release(ctx)
}
