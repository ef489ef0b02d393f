package proxy

import (
	"context"
	"slices"
	"strings"
	"sync"

	"taskgate/upstream"
	"taskgate/wire"
)

// separator stands between the name of an upstream and that of its tool or prompt
// on an endpoint of several. No member's name contains it or ends with a part of it,
// so that the first one in a name is the place to cut.
const separator = "__"

// joined is an endpoint of several upstreams. Each request there is made one of the
// upstream that it is for, and from then on is like any other of that one.
type joined struct {
	members []*route
	places  places
}

// join makes endpoints of several out of those that name members.
func (h *Handler) join(endpoints []Endpoint) {
	byName := map[string]*route{}
	for _, e := range endpoints {
		byName[e.Name] = h.routes[e.Path]
	}
	for _, e := range endpoints {
		if len(e.Members) == 0 {
			continue
		}
		j := &joined{}
		for _, name := range e.Members {
			j.members = append(j.members, byName[name])
		}
		byName[e.Name].joined = j
	}
}

// joinedMethod answers what is for all members. A method that is not known has
// nobody to go to.
func (h *Handler) joinedMethod(name string) method {
	for _, l := range listings {
		if l.method == name {
			return func(ctx context.Context, x *exchange, out *responder) (wire.Raw, error) {
				defer out.holdOpen().Stop()
				return h.listJoined(ctx, x, l)
			}
		}
	}
	return notFound
}

// describe is what the upstream last said of itself, or several of themselves.
func (r *route) describe(ctx context.Context) upstream.Info {
	if r.joined == nil {
		return r.info.get(ctx)
	}
	infos := make([]upstream.Info, len(r.joined.members))
	var wg sync.WaitGroup
	for i, member := range r.joined.members {
		wg.Go(func() { infos[i] = member.info.get(ctx) })
	}
	wg.Wait()
	return r.joined.merge(infos)
}

// merge: what one of them has, the endpoint has.
func (j *joined) merge(infos []upstream.Info) upstream.Info {
	var caps wire.Object
	var instructions []string
	for i, info := range infos {
		for _, area := range capabilities(info) {
			all, _ := caps.Object(area.Name)
			features, _ := wire.ParseObject(area.Value) // one that is no object has none
			for _, f := range features {
				if string(all.Get(f.Name)) != "true" {
					all = all.With(f.Name, f.Value)
				}
			}
			if area.Name != "experimental" && area.Name != "extensions" { // not for all of them
				caps = caps.With(area.Name, all.Bytes())
			}
		}
		if text, ok := wire.String(info.Instructions); ok {
			instructions = append(instructions, j.members[i].Name+": "+text)
		}
	}
	out := upstream.Info{Capabilities: caps.Bytes()}
	if instructions != nil {
		out.Instructions = wire.Quote(strings.Join(instructions, "\n\n"))
	}
	return out
}

// descend makes a request to an endpoint of several upstreams one to the upstream
// that it is for. Requests for all of them, and those about tasks, which know where
// they belong by their id, stay.
func (h *Handler) descend(ctx context.Context, x *exchange) error {
	if x.route.joined == nil {
		return nil
	}
	var member *route
	var err error
	switch x.msg.Method {
	case "tools/call", "prompts/get":
		x.params, member, err = x.route.joined.byName(x.params, "name")
	case "resources/read":
		uri, _ := wire.String(x.params.Get("uri"))
		member, err = h.memberOf(ctx, x, uri)
	case "completion/complete":
		member, err = h.completer(ctx, x)
	}
	if err != nil || member == nil {
		return err
	}
	x.route = member
	return x.identity.Require(x.scopes()...)
}

// byName takes the prefix off a name.
func (j *joined) byName(params wire.Object, at string) (wire.Object, *route, error) {
	name, ok := wire.String(params.Get(at))
	prefix, rest, cut := strings.Cut(name, separator)
	i := slices.IndexFunc(j.members, func(r *route) bool { return r.Name == prefix })
	if !ok || !cut || i < 0 {
		return params, nil, wire.Errorf(wire.CodeInvalidParams, "Invalid params: %.100q is none of this endpoint's names, which begin with the name of a server and %q", name, separator)
	}
	return params.With(at, wire.Quote(rest)), j.members[i], nil
}

// completer finds whose the reference of a completion/complete is.
func (h *Handler) completer(ctx context.Context, x *exchange) (*route, error) {
	ref, _ := x.params.Object("ref")
	if uri, ok := wire.String(ref.Get("uri")); ok {
		return h.memberOf(ctx, x, uri)
	}
	ref, member, err := x.route.joined.byName(ref, "name")
	x.params = x.params.With("ref", ref.Bytes())
	return member, err
}

// as is the exchange as one with a member.
func (x *exchange) as(member *route, method string) *exchange {
	sub := *x
	sub.route, sub.msg.Method, sub.params = member, method, wire.Object{}
	return &sub
}
