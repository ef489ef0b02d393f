package upstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"taskgate/wire"
)

// Era is the generation of the protocol that an upstream speaks
// (2026-07-28, basic/versioning#terminology).
type Era string

// Eras. Auto finds out by server/discover. SSE is the oldest part of the legacy era:
// HTTP+SSE of 2024-11-05, which is also found out when a server refuses to be spoken
// to in another way.
const (
	Auto   Era = "auto"
	Legacy Era = "legacy"
	Modern Era = "modern"
	SSE    Era = "sse"
)

// Cancel says what of a cancel reaches the upstream. The stream of an HTTP request is
// closed in any case, and a task that the upstream has made of the call is cancelled.
type Cancel string

// Values of Cancel.
const (
	CancelNotify Cancel = "notify" // notifications/cancelled
	CancelClose  Cancel = "close"  // the end of the session, or process, as soon as no other call is in it
	CancelNone   Cancel = "none"   // nothing; some older servers end at a notifications/cancelled
)

// Options of NewHTTP and NewCommand. A zero limit, time or hook means its default.
type Options struct {
	// Name tells the upstream from others in logs and metrics.
	Name string
	// URL is the MCP endpoint, http or https.
	URL string
	// Era is Auto when empty.
	Era Era
	// Header goes out with every request.
	Header http.Header
	// Version is the gateway's own, for clientInfo.
	Version string

	// MaxResponse limits an answer in JSON and MaxEvent one server-sent event,
	// in bytes after decompression. Default: 16 MiB each.
	MaxResponse int64
	MaxEvent    int
	// MaxSessions limits the legacy sessions that are open at once; half as many
	// streams are listened to, at most. Default: 1000.
	MaxSessions int
	// Isolation says who may share a session. Default: PerPrincipal.
	Isolation Isolation
	// Cancel says what of a cancel reaches the upstream. Default: CancelNotify.
	Cancel Cancel
	// Patience is how long a call waits for a session when all that are allowed are
	// in use. Default: not at all.
	Patience time.Duration
	// SessionIdle is how long a session without calls is kept. Default: 5 min.
	SessionIdle time.Duration
	// ConnectTimeout limits the dialling and the TLS handshake, each. Default: 5 s.
	ConnectTimeout time.Duration
	// InitializeTimeout limits server/discover and the opening of a session.
	// Default: 15 s. Calls have no time limit here but their ctx.
	InitializeTimeout time.Duration
	// CancelTimeout limits telling the upstream that a call or a session is
	// over. Default: 2 s.
	CancelTimeout time.Duration
	// Retry is the pause before a stream that broke is opened again, and before
	// an upstream's task is asked for again, unless the upstream says another;
	// repeated pauses grow to 30 times as long. A call whose upstream cannot be
	// reached for 120 times as long is given up. Default: 1 s.
	Retry time.Duration
	// Concurrency is how many calls are expected at once: so many idle
	// connections are kept, up to 128. Default: 256.
	Concurrency int
	// TLS is the configuration of the next https connection. Default: Go's.
	TLS func() *tls.Config
	// Auth makes requests acceptable. Default: Header is all there is.
	Auth Auth
	// NeedsClient: a request that a client makes carries headers of that client
	// (Credentials.Header), so it is not sent without them.
	NeedsClient bool
	// AllowLinkLocal permits link-local and cloud metadata addresses.
	AllowLinkLocal bool

	Log     *zap.Logger           // default: none
	Metrics prometheus.Registerer // default: none
	Now     func() time.Time      // default: time.Now
}

func (o Options) withDefaults() Options {
	setDefault(&o.Era, Auto)
	setDefault(&o.Isolation, PerPrincipal)
	setDefault(&o.Cancel, CancelNotify)
	setDefault(&o.Version, "unknown")
	setDefault(&o.MaxResponse, 16<<20)
	setDefault(&o.MaxEvent, 16<<20)
	setDefault(&o.MaxSessions, 1000)
	setDefault(&o.SessionIdle, 5*time.Minute)
	setDefault(&o.ConnectTimeout, 5*time.Second)
	setDefault(&o.InitializeTimeout, 15*time.Second)
	setDefault(&o.CancelTimeout, 2*time.Second)
	setDefault(&o.Retry, time.Second)
	setDefault(&o.Concurrency, 256)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o Options) check() error {
	if o.Era != Auto && o.Era != Legacy && o.Era != Modern && o.Era != SSE {
		return fmt.Errorf("era %q: must be auto, legacy, modern or sse", o.Era)
	}
	if o.Isolation != Shared && o.Isolation != PerPrincipal && o.Isolation != PerCall {
		return fmt.Errorf("isolation %q: must be shared, principal or call", o.Isolation)
	}
	if o.Cancel != CancelNotify && o.Cancel != CancelClose && o.Cancel != CancelNone {
		return fmt.Errorf("cancel %q: must be notify, close or none", o.Cancel)
	}
	return nil
}

// address is URL, taken apart.
func (o Options) address() (*url.URL, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		var bad *url.Error
		if errors.As(err, &bad) { // without the URL, which may hold a password
			err = bad.Err
		}
		return nil, fmt.Errorf("url: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("url: must be http://host… or https://host…")
	}
	return u, nil
}

// clientInfo is how the gateway introduces itself.
func (o Options) clientInfo() wire.Raw {
	return wire.Object{}.With("name", wire.Quote("taskgate")).With("version", wire.Quote(o.Version)).Bytes()
}
