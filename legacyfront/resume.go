package legacyfront

import (
	"net/http"

	"go.uber.org/zap"

	"taskgate/wire"
)

// resume says again what was said to a request since, and what comes yet.
func (f *Front) resume(w http.ResponseWriter, req *http.Request, s *session, name string, said int) {
	key := s.legKey(name)
	text, err := f.read(req.Context(), key)
	if err == nil && text == nil {
		err = badRequest("header %s names no stream that is still kept", wire.HeaderLastEvent)
	}
	if err != nil {
		refuse(w, nil, err)
		return
	}
	out := f.newStream(w, req, s, name)
	out.said = said
	out.alive()
	var request wire.Raw
	err = f.await(req.Context(), key, out.alive, func(text []byte) (enough bool) {
		l, err := readLeg(text)
		for err == nil && out.said < len(l.Events) {
			out.said++
			out.event(l.Events[out.said-1])
		}
		if text == nil { // nobody runs it any more
			out.event(wire.Failure(request, lost).Bytes())
			return true
		}
		request = l.ID
		return l.Over
	})
	if err != nil {
		f.opts.Log.Debug("a stream that was taken up again ended before its answer", zap.Error(err)) // with the client, or the gateway
	}
}

// lost is the answer to a request whose gateway is gone.
var lost = wire.Errorf(wire.CodeInternal, "The gateway that ran the request is gone, and nobody knows the outcome; the tool may have run").
	WithData(map[string]any{"reason": "outcome_unknown", "retriable": false})
