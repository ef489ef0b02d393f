package upstream

import (
	"context"
	"net/http"
	"sync"

	"go.uber.org/zap"

	"taskgate/wire"
)

// logLevel is what a session's server was last told by logging/setLevel. It is
// one for all calls of the session, hence the least severe that any of them
// wanted; who relays the messages knows what each wants.
type logLevel struct {
	mu    sync.Mutex
	level string // "": never told
}

// lower takes level on if it lets more through than what the server was told.
func (v *logLevel) lower(level string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.level != "" && wire.LogsAt(level, v.level) {
		return false
	}
	v.level = level
	return true
}

// setLevel has the server log what the call wants to hear. A server that does
// not take it logs what it pleases.
func (l *legacy) setLevel(ctx context.Context, s *session, header http.Header, r Request) {
	if r.LogLevel == "" || !s.logs() || !s.level.lower(r.LogLevel) {
		return
	}
	a, err := l.errand(ctx, s, header, "logging/setLevel", wire.Object{}.With("level", wire.Quote(r.LogLevel)))
	if err == nil && a.Error != nil {
		err = wire.ParseError(a.Error)
	}
	if err != nil {
		l.opts.Log.Debug("upstream does not take a log level", zap.String("upstream", l.opts.Name), LogError(err))
	}
}

func (s *session) logs() bool {
	capabilities, _ := wire.ParseObject(s.capabilities())
	_, ok := capabilities.Object("logging")
	return ok
}
