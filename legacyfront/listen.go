package legacyfront

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"taskgate/proxy"
	"taskgate/wire"
)

// get is GET: the stream that belongs to no request, or one that was lost
// (transports, Resumability and Redelivery).
func (f *Front) get(w http.ResponseWriter, req *http.Request, v *proxy.Visit, s *session) {
	if !wire.AcceptsEvents(req.Header) {
		refuse(w, nil, &refusal{http.StatusNotAcceptable, wire.Errorf(wire.CodeInvalidRequest, "Not acceptable: GET answers with a stream; Accept must name text/event-stream")})
		return
	}
	name, said, ok := parseEventID(req.Header.Get(wire.HeaderLastEvent))
	if ok && name != listenName {
		f.resume(w, req, s, name, said)
		return
	}
	l := &listener{f: f, v: v, s: s, id: rand.Text(), out: f.newStream(w, req, s, listenName), missed: ok}
	l.tasks = newFollower(l)
	l.takeFloor(req.Context())
	defer l.leaveFloor(req.Context())
	l.run(w, req)
}

// listenName begins the ids of events that belong to no request.
const listenName = "listen"

// listener is an open stream that belongs to no request. It is the modern
// front's subscriptions/listen for all that the session may hear of.
type listener struct {
	f     *Front
	v     *proxy.Visit
	s     *session
	id    string // names it in the session's state
	tasks *follower

	mu       sync.Mutex
	out      *stream
	speaks   bool     // of the session's streams this one gets the messages
	honoured wire.Raw // what is heard of
	// missed: something may have happened while nobody listened.
	missed bool
}

var errResubscribe = fmt.Errorf("%w: the session listens to other resources now", context.Canceled)

// run listens until the client leaves or there is no more to hear.
func (l *listener) run(w http.ResponseWriter, req *http.Request) {
	all, end := context.WithCancel(req.Context())
	var following sync.WaitGroup
	following.Go(func() { l.tasks.run(all) })
	t := l.listen(all)
	end()
	following.Wait()
	if !l.out.started {
		t.answer().write(w, t.reply)
	}
}

// listen listens to what the session has subscribed to, again when that changes, and
// returns how it was answered at last.
func (l *listener) listen(all context.Context) *tap {
	for {
		ctx, cancel := context.WithCancelCause(all)
		go l.watch(ctx, cancel, l.s.state.URIs)
		t := ask(ctx, l.v, l.request(), l.relay)
		again := errors.Is(context.Cause(ctx), errResubscribe)
		cancel(nil)
		if !again {
			return t
		}
		brief, done := l.f.briefly(all)
		l.s.state = l.f.state(brief, l.s)
		done()
		l.mu.Lock()
		l.missed = true
		l.mu.Unlock()
	}
}

// watch ends the listening when the session has ended, or wants to hear of
// others than uris, and sees which tasks it has made and which of its streams is to
// speak.
func (l *listener) watch(ctx context.Context, cancel context.CancelCauseFunc, uris []string) {
	_ = l.f.await(ctx, l.s.stateKey(), nil, func(text []byte) bool {
		var st state
		if text != nil && json.Unmarshal(text, &st) != nil {
			return false
		}
		switch {
		case st.Ended:
			cancel(errEnded)
		case !slices.Equal(st.URIs, uris):
			cancel(errResubscribe)
		default:
			l.giveFloor(ctx, st.Listener)
			l.tasks.follow(st.Tasks)
			return false
		}
		return true
	})
}

func (l *listener) request() wire.Message {
	want := wire.Filter{Tools: true, Prompts: true, Resources: true, URIs: l.s.state.URIs}
	return l.s.modern(wire.Message{ID: wire.Quote(listenName), Method: "subscriptions/listen",
		Params: wire.Object{}.With("notifications", want.Object().Bytes()).Bytes()})
}

// relay passes on what is heard. After a gap the client is told once to look
// again at all of it.
func (l *listener) relay(msg wire.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	params, _ := wire.ParseObject(msg.Params)
	switch msg.Method {
	case "":
		l.out.alive()
	case wire.NoteAcknowledged:
		l.out.alive()
		if l.honoured = params.Get("notifications"); l.missed {
			l.lookAgain()
		}
	default:
		if meta, ok := params.Object("_meta"); ok {
			params = params.Without("_meta")
			if meta = meta.Without(wire.MetaSubscriptionID); len(meta) > 0 {
				params = params.With("_meta", meta.Bytes())
			}
		}
		if msg.Params = nil; len(params) > 0 {
			msg.Params = params.Bytes()
		}
		l.say(msg)
	}
}

func (l *listener) lookAgain() {
	heard, _ := wire.ParseFilter(l.honoured) // the gateway's own
	for _, list := range []struct {
		heard  bool
		method string
	}{{heard.Tools, wire.NoteTools}, {heard.Prompts, wire.NotePrompts}, {heard.Resources, wire.NoteResources}} {
		if list.heard {
			l.say(wire.Message{Method: list.method})
		}
	}
	for _, uri := range heard.URIs {
		l.say(wire.Message{Method: wire.NoteResource, Params: wire.Object{}.With("uri", wire.Quote(uri)).Bytes()})
	}
}

// tell is say for who does not hold mu.
func (l *listener) tell(msg wire.Message) (said bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.say(msg)
}

// say sends a message if it is this stream's to send.
func (l *listener) say(msg wire.Message) (said bool) {
	if l.speaks {
		l.out.event(msg.Bytes())
	}
	return l.speaks
}
