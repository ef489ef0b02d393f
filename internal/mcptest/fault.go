package mcptest

import (
	"io"
	"net/http"
	"slices"
	"sync"
)

// faults are answers that were planned instead of the real ones.
type faults struct {
	mu   sync.Mutex
	plan []*fault
}

type fault struct {
	method string
	times  int
	answer http.HandlerFunc
}

// Fail lets f answer the next requests of a JSON-RPC method, times of them; ""
// stands for every method, and for GET and DELETE. They are in the ledger all
// the same.
func (p *faults) Fail(method string, times int, f http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = append(p.plan, &fault{method: method, times: times, answer: f})
}

func (p *faults) take(method string) http.HandlerFunc {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan = slices.DeleteFunc(p.plan, func(f *fault) bool { return f.times <= 0 })
	for _, f := range p.plan {
		if f.method == "" || f.method == method {
			f.times--
			return f.answer
		}
	}
	return nil
}

// Respond answers with a status, a content type and a body, whatever was asked.
func Respond(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Hang answers nothing until the client goes away.
func Hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Drop breaks the connection without an answer.
func Drop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
