package legacyfront

import (
	"net/http"

	"taskgate/wire"
)

// Answer is a result or an error of 2026-07-28, which the client gets in the form
// of its own era.
type Answer struct {
	Result wire.Raw
	Error  wire.Raw
	from   *tap // nil: made by who serves the older era
}

// Fail is the answer that something cannot be done.
func Fail(rpc *wire.Error) Answer { return Answer{Error: rpc.Raw()} }

// streamed tells an answer that came as an event.
func (a Answer) streamed() bool {
	return a.from != nil && a.from.header.Get("Content-Type") == "text/event-stream"
}

// httpStatus is the status of an answer. In this era an error that answers a
// request is no failure of HTTP, and 404 would end the session; what keeps a
// caller out or asks him to come again still is one.
func (a Answer) httpStatus() int {
	if a.from == nil || a.from.status == http.StatusBadRequest || a.from.status == http.StatusNotFound {
		return http.StatusOK
	}
	return a.from.status
}

// write writes msg, which is the answer in its final form, with the headers that
// belong to its status.
func (a Answer) write(w http.ResponseWriter, msg wire.Message) {
	for _, name := range []string{"WWW-Authenticate", "Retry-After"} {
		if a.from != nil && a.from.header.Get(name) != "" {
			w.Header().Set(name, a.from.header.Get(name))
		}
	}
	writeJSON(w, a.httpStatus(), msg)
}
