package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"

	"go.uber.org/zap"

	"taskgate/wire"
)

// detector finds out the era of the upstream and remembers it. It is a property
// of the server, but the server behind a URL may be replaced.
type detector struct {
	probe   func(context.Context, *Request) (Era, error)
	isSSE   func(context.Context, *Request) bool
	opts    Options
	metrics *metrics
	probes  *flights[string, Era]

	mu    sync.Mutex
	known Era // Auto: not known (any more)
}

// era returns the era, from memory when it is there. r is the request that
// wants to know. ctx's end is an error that wraps ctx.Err(), all else an *Error.
func (d *detector) era(ctx context.Context, r *Request) (Era, error) {
	if era := d.get(); era != Auto {
		return era, nil
	}
	// A probe carries the headers of one principal, so only that one shares it.
	return d.probes.do(ctx, r.Principal, func(ctx context.Context) (Era, error) {
		era, err := d.probe(ctx, r)
		if err != nil {
			d.metrics.probes.WithLabelValues("inconclusive").Inc()
			return "", err
		}
		d.metrics.probes.WithLabelValues(string(era)).Inc()
		d.opts.Log.Info("upstream era found", zap.String("upstream", d.opts.Name), zap.String("era", string(era)))
		d.set(era)
		return era, nil
	})
}

// again returns the era anew because the upstream does not behave like was. One that
// has refused initialize and is still no modern server may be of HTTP+SSE
// (2025-11-25, basic/transports#backwards-compatibility).
func (d *detector) again(ctx context.Context, was Era, r *Request) (Era, error) {
	d.forget(was)
	now, err := d.era(ctx, r)
	if err != nil || was != Legacy || now != Legacy {
		return now, err
	}
	return d.probes.do(ctx, "sse "+r.Principal, func(ctx context.Context) (Era, error) {
		if !d.isSSE(ctx, r) {
			return Legacy, nil
		}
		d.metrics.probes.WithLabelValues(string(SSE)).Inc()
		d.opts.Log.Info("upstream era found", zap.String("upstream", d.opts.Name), zap.String("era", string(SSE)))
		d.set(SSE)
		return SSE, nil
	})
}

func (d *detector) get() Era {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known
}

func (d *detector) set(era Era) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = era
}

// forget leaves alone what somebody else has found meanwhile.
func (d *detector) forget(was Era) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == was {
		d.known = d.opts.Era
	}
}

// probe asks server/discover. What may change by itself (a server that fails,
// is silent or wants other credentials) is an *Error and no verdict.
func (d *modern) probe(ctx context.Context, header http.Header) (Era, error) {
	a, err := d.discover(ctx, header)
	switch {
	case unknownToIt(err):
		return Legacy, nil
	case err != nil:
		return "", err
	}
	return eraOf(a.Reply), nil
}

// eraOf reads the answer to server/discover.
func eraOf(r Reply) Era {
	switch {
	case r.Error != nil:
		return eraOfError(wire.ParseError(r.Error))
	case supports(r.Result, "supportedVersions"):
		return Modern
	}
	return Legacy // some legacy servers know the method too
}

// unknownToIt tells the failures of server/discover that are an answer in
// themselves: the server knows no such request.
func unknownToIt(err error) bool {
	if r := unread(err); r != nil {
		return wrongEndpointStatus(r.status) || r.status == http.StatusNotAcceptable || r.status == http.StatusUnsupportedMediaType
	}
	return errors.Is(err, errNoResponse)
}

// eraOfError reads an error in place of a DiscoverResult. Some errors only a
// modern server gives, but one of them may say that it rather speaks legacy.
func eraOfError(e *wire.Error) Era {
	if e.Code == wire.CodeUnsupportedVersion && !supports(e.Data, "supported") {
		return Legacy
	}
	if modernCode(e.Code) {
		return Modern
	}
	return Legacy
}

// supports tells whether the member of the object lists the modern version.
func supports(object wire.Raw, member string) bool {
	o, err := wire.ParseObject(object)
	if err != nil {
		return false
	}
	var versions []string
	err = json.Unmarshal(o.Get(member), &versions)
	return err == nil && slices.Contains(versions, wire.Version)
}
