package legacyfront

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"taskgate/taskroute"
	"taskgate/taskroute/memstore"
	"taskgate/wire"
)

func TestALargeAnswerIsNotKept(t *testing.T) {
	c := &Call{f: New(nil, Options{MaxKept: 100}), msg: wire.Message{ID: wire.Raw(`7`)}}
	small, large := `{"jsonrpc":"2.0","id":7,"result":{}}`, `{"jsonrpc":"2.0","id":7,"result":{"x":"`+strings.Repeat("x", 100)+`"}}`
	if got := string(c.keepable([]byte(small))); got != small {
		t.Errorf("a small answer is kept as %s", got)
	}
	if got := string(c.keepable([]byte(large))); !strings.Contains(got, `"id":7,"error"`) || !strings.Contains(got, "the limit is 100") {
		t.Errorf("a large answer is kept as %s", got)
	}
}

// Nobody keeps the note of a call whose gateway died, while its client was asked
// perhaps. Who waits for the answer elsewhere is told, when the note's time is over.
func TestACallOfADeadGatewayEndsWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := taskroute.NewStore(memstore.New(time.Now), taskroute.Options{Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		f := New(store, Options{Kept: 5 * time.Minute, StoreTimeout: time.Second, Recheck: 5 * time.Second,
			KeepAlive: 15 * time.Second, WriteTimeout: time.Second, Now: time.Now, Log: zap.NewNop()})
		s := &session{agreed: agreed{ID: "s", Version: wire.LegacyVersion}}
		name := legName(wire.Raw(`7`))
		question := `{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}`
		err = f.changeLeg(t.Context(), s.legKey(name), func(l *leg) error {
			l.ID, l.Events = wire.Raw(`7`), [][]byte{[]byte(question)}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		w := httptest.NewRecorder()
		f.resume(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/mcp", nil), s, name, 0)
		if waited := time.Since(began); waited > 6*time.Minute {
			t.Errorf("the client has waited for %v", waited)
		}
		told := w.Body.String()
		if !strings.Contains(told, question) || !strings.Contains(told, `"id":7,"error"`) || !strings.Contains(told, "outcome_unknown") {
			t.Errorf("the client was told:\n%s", told)
		}
	})
}
