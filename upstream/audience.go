package upstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"taskgate/wire"
)

// source reads the upstream's stream for an audience until it breaks, which is
// an error, or ctx ends. wants tells what to ask the upstream for: it has the
// first filter at once, and another whenever that changes.
type source func(ctx context.Context, wants <-chan wire.Filter, to *audience) error

// errDeaf: the upstream never says anything on its own account.
var errDeaf = errors.New("the upstream has no stream to listen to")

// audience are those who share one stream. What it holds is under audiences.mu.
type audience struct {
	*audiences
	key  sessionKey
	end  context.CancelFunc
	news chan struct{} // closed and replaced when the stream opens or breaks

	listeners map[*Subscription]struct{}
	wants     chan wire.Filter // capacity 1: the latest
	want      wire.Filter      // the union of the listeners'
	open      bool             // the two below hold
	asked     wire.Filter      // what the upstream was asked for
	honoured  wire.Filter      // ... and has agreed to
	deaf      bool
	broken    int // how often the stream has broken
}

func (a *audience) leave(s *Subscription) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.listeners, s)
	if len(a.listeners) > 0 {
		a.ask()
		return
	}
	a.end()
	if a.all[a.key] == a {
		delete(a.all, a.key)
	}
}

// ask puts the union of what is wanted before the source, when it is another.
func (a *audience) ask() {
	var union wire.Filter
	for s := range a.listeners {
		union = union.Union(s.want)
	}
	if !union.Equal(a.want) {
		a.want = union
		a.putWant()
	}
}

func (a *audience) putWant() {
	select {
	case <-a.wants: // nobody has looked at it yet
	default:
	}
	a.wants <- a.want
}

// opened is told by the source when the upstream has agreed to tell about
// honoured, having been asked for asked.
func (a *audience) opened(asked, honoured wire.Filter) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open, a.asked, a.honoured, a.deaf = true, asked, honoured, false
	a.acknowledge()
	a.tell()
}

// acknowledge settles what can be, and lets those who may have missed something
// look again.
func (a *audience) acknowledge() {
	for s := range a.listeners {
		switch {
		case a.deaf && !s.acknowledged:
			s.settle(wire.Filter{})
		case !a.open || !s.want.Common(a.asked).Equal(s.want):
			continue
		case !s.acknowledged:
			s.settle(a.honoured)
		}
		if a.open && s.missed {
			s.missed = false
			s.hearAll()
		}
	}
}

// hear is told by the source what the upstream says.
func (a *audience) hear(method string, params wire.Raw) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.listeners {
		if !s.hear(Notification{method, params}) {
			a.metrics.unheard.Inc()
		}
	}
}

// broke notes the end of the stream.
func (a *audience) broke(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken++
	a.open, a.deaf = false, errors.Is(err, errDeaf)
	for s := range a.listeners {
		s.missed = true
	}
	a.acknowledge()
	a.putWant()
	a.tell()
}

func (a *audience) tell() {
	close(a.news)
	a.news = make(chan struct{})
}

// run opens the stream again and again, with longer and longer pauses.
func (a *audience) run(ctx context.Context, open source) {
	longest := 30 * a.opts.Retry
	for pause := a.opts.Retry; ; pause = min(2*pause, longest) {
		began := time.Now()
		err := open(WithCredentials(ctx, a.client()), a.wants, a)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > longest {
			pause = a.opts.Retry
		}
		if errors.Is(err, errDeaf) {
			pause = 10 * longest
		}
		a.broke(err)
		a.metrics.streamsBroken.Inc()
		if !wait(ctx, pause/2+rand.N(pause/2)) {
			return
		}
	}
}

// client are credentials to open the stream with: of all listeners' those that
// end last.
func (a *audience) client() (last *Credentials) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.listeners {
		if c := s.client; c != nil && (last == nil || last.before(c)) {
			last = c
		}
	}
	return last
}
