package upstream

import (
	"context"
	"fmt"
	"net/http"

	"go.uber.org/zap"

	"taskgate/wire"
)

// modern speaks 2026-07-28: every request stands alone.
type modern struct {
	line    line
	ids     *ownIDs
	opts    Options
	tasks   *tasksNeeded
	passing bool // as in token
}

// modernCall is a call on its way. Closing the stream is how it is cancelled.
type modernCall struct {
	dialect  *modern
	request  *Request
	handler  Handler
	declared bool // the tasks extension
	sent     underway[answer]
}

func (d *modern) call(ctx context.Context, r *Request, h Handler) underway[verdict] {
	c := &modernCall{dialect: d, request: r, handler: h, declared: d.tasks.by(r)}
	started(h)
	c.sent = d.send(ctx, number(r.ID), r, c.declared, c.receive)
	return c
}

func (c *modernCall) wait() { c.sent.wait() }

// outcome calls a tool again that turns out to run only as a task: it was refused
// unread.
func (c *modernCall) outcome(ctx context.Context) (verdict, error) {
	d, r := c.dialect, c.request
	a, err := c.sent.outcome(ctx)
	if err == nil && !c.declared && a.wantsTasks() && d.tasks.note(r) {
		a, err = d.send(ctx, number(r.ID), r, true, c.receive).outcome(ctx)
	}
	if err == nil && wire.ResultType(a.Result) == wire.ResultTask {
		reply, err := d.followTask(ctx, *r, c.handler, a.Result)
		return verdict{reply: reply}, err
	}
	return verdict{a.Reply, wrongEndpoint(err) || a.legacyOnly()}, err
}

func (c *modernCall) receive(m wire.Message) {
	if !m.IsRequest() {
		deliver(c.handler, c.request.ID, m)
		return
	}
	// This revision has none; it cannot be answered either.
	o := c.dialect.opts
	o.Log.Debug("upstream sent a request on a modern stream", zap.String("upstream", o.Name), zap.String("method", m.Method))
}

// toolOf is the tool that a request calls; "" for other requests.
func toolOf(r *Request) string {
	if r.Method != "tools/call" {
		return ""
	}
	name, _ := wire.String(r.Params.Get("name"))
	return name
}

// send sends a request. tasks says whether to declare the extension.
func (d *modern) send(ctx context.Context, id wire.Raw, r *Request, tasks bool, receive func(wire.Message)) underway[answer] {
	params, err := modernParams(r, tasks)
	if err != nil {
		return inTurn[answer](func(context.Context) (answer, error) { return answer{}, err })
	}
	header := callHeader(r.Header, Modern)
	wire.SetHeaders(header, r.Method, params)
	return d.line.exchange(ctx, outgoing{
		id: id, method: r.Method, params: params,
		header: header,
	}, receive)
}

// legacyOnly tells a refusal that suggests that the upstream is not modern (any
// more): it does not implement the version, or it could not even read the
// request and gives no reason that the modern protocol knows.
func (a answer) legacyOnly() bool {
	if a.Error == nil || !wrongEndpointStatus(a.status) {
		return false
	}
	code := wire.ParseError(a.Error).Code
	return code == wire.CodeUnsupportedVersion || !a.named && !modernCode(code)
}

func modernCode(code int) bool {
	return code == wire.CodeHeaderMismatch || code == wire.CodeMissingCapability || code == wire.CodeUnsupportedVersion
}

// handshakeID is the id of initialize and server/discover, and that of requests
// which are the connector's own. No Request of a caller has it.
const handshakeID = 0

// discover sends server/discover on the gateway's own behalf, with the headers
// of the request that made it necessary, if any.
func (d *modern) discover(ctx context.Context, header http.Header) (a answer, err error) {
	err = within(ctx, d.opts.InitializeTimeout, "server/discover", func(ctx context.Context) (err error) {
		r := Request{ID: handshakeID, Method: "server/discover", ClientInfo: d.opts.clientInfo(), Header: header}
		a, err = d.send(ctx, number(handshakeID), &r, false, func(wire.Message) {}).outcome(ctx)
		return err
	})
	return a, err
}

func (d *modern) info(ctx context.Context) (info Info, doubt bool, err error) {
	a, err := d.discover(ctx, nil)
	if err != nil {
		return Info{}, wrongEndpoint(err), err
	}
	return a.info()
}

// info reads the answer to server/discover.
func (a answer) info() (info Info, doubt bool, err error) {
	if a.Error != nil {
		return Info{}, a.legacyOnly(), &Error{Kind: Incompatible, Status: a.status, Err: wire.ParseError(a.Error)}
	}
	o, err := wire.ParseObject(a.Result)
	if err != nil {
		return Info{}, false, &Error{Kind: Incompatible, Status: a.status, Err: fmt.Errorf("server/discover: result: %w", err)}
	}
	meta, _ := wire.ParseObject(o.Get("_meta")) // whoever says nothing there has no serverInfo
	return Info{Capabilities: o.Get("capabilities"), ServerInfo: meta.Get(wire.MetaServerInfo),
		Instructions: o.Get("instructions"), Modern: true}, !supports(a.Result, "supportedVersions"), nil
}
