package config

import (
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

func (v *validator) store(c Config) {
	switch c.Store.Kind() {
	case StoreRedis:
		u, err := url.Parse(string(c.Store))
		if err != nil || u.Host == "" {
			v.problem("store", "%s is not a Redis URL; write one such as redis://127.0.0.1:6379/0", c.Store)
		}
	case StoreEmbedded:
		if c.Store == "" || strings.Contains(string(c.Store), "://") {
			v.problem("store", "%q is not a store; write memory, a file such as ./data/taskgate.db, or redis://host:6379/0", redact(string(c.Store)))
		}
	}
	v.redis(c)
}

func (v *validator) redis(c Config) {
	r := c.Redis
	if used := r.MasterName != "" || len(r.Addresses) > 0 || r.Password != (Secret{}) || r.Username != "" || r.WaitReplicas != 0; used && c.Store.Kind() != StoreRedis {
		v.problem("redis", "does nothing with this store; write store: redis://host:6379/0, or leave redis out")
	}
	if r.Prefix == "" || strings.ContainsAny(r.Prefix, "{} ") {
		v.problem("redis.prefix", "%q cannot begin keys; write a word such as taskgate", r.Prefix)
	}
	if r.PoolSize < 0 {
		v.problem("redis.poolSize", "must not be negative; 0 means 128")
	}
	if r.WaitReplicas < 0 {
		v.problem("redis.waitReplicas", "must not be negative; 0 means that none is waited for")
	}
	for i, a := range r.Addresses {
		v.hostPort(item("redis.addresses", i), a)
	}
}

var upstreamName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (v *validator) upstreams(c Config) {
	if len(c.Upstreams) == 0 {
		v.problem("upstreams", "there is none; write upstreams: [{name: default, url: http://127.0.0.1:3000/mcp}], or use --upstream")
	}
	names, paths := map[string]string{}, map[string]string{}
	for i, u := range c.Upstreams {
		at := item("upstreams", i)
		v.unique(names, at, "name", u.Name)
		v.unique(paths, at, "path", u.Path)
		if !upstreamName.MatchString(u.Name) {
			v.problem(at+".name", "%q is not a name; use up to 64 letters, digits, dots, dashes and underscores", u.Name)
		}
		if !strings.HasPrefix(u.Path, "/") || path.Clean(u.Path) != u.Path || strings.ContainsAny(u.Path, "?#{} %") {
			v.problem(at+".path", "%q is not a path; write one such as /mcp", u.Path)
		}
		v.target(at, u, c)
		v.enum(at+".era", string(u.Era), u.Era.Values())
		v.enum(at+".isolation", string(u.Isolation), u.Isolation.Values())
		v.cancel(at+".cancel", u)
		v.transport(at, u)
		v.headers(at, u)
		v.outbound(at, u, c)
		v.upstreamScopes(at, u, c)
		v.jobPrefix(at+".jobPrefix", u.JobPrefix)
		v.positive(at+".limits", u.Limits, "queue")
	}
}

var jobPrefix = regexp.MustCompile(`^[A-Za-z0-9._-]{0,54}$`) // a name of a tool has 64 at most

// jobPrefix looks at what begins the names of tools. Those of an aggregate's members
// have __ in them.
func (v *validator) jobPrefix(at, prefix string) {
	if !jobPrefix.MatchString(prefix) || strings.Contains(prefix, "__") {
		v.problem(at, "%q cannot begin the names of tools; use up to 54 letters, digits, dots, dashes and underscores, without __", prefix)
	}
}

// unique wants a field to have a value of its own in each element of a list.
// seen tells which element had a value first.
func (v *validator) unique(seen map[string]string, at, field, value string) {
	if first, ok := seen[value]; ok {
		v.problem(at+"."+field, "%q is that of %s already; give each its own", value, first)
		return
	}
	seen[value] = at
}

// target looks at how the upstream is reached.
func (v *validator) target(at string, u Upstream, c Config) {
	switch {
	case len(u.Aggregate) > 0:
		v.aggregate(at, u, c)
	case u.URL == "" && len(u.Command) == 0:
		v.problem(at, "has neither url, command nor aggregate; write one of them")
	case u.URL != "" && len(u.Command) > 0:
		v.problem(at+".command", "is set beside url; keep one of the two")
	case len(u.Command) > 0:
		if u.Command[0] == "" {
			v.problem(at+".command", "names no program")
		}
		if u.AllowLinkLocal {
			v.problem(at+".allowLinkLocal", "does nothing for a command; remove it")
		}
	default:
		v.url(at+".url", u.URL)
	}
}

func (v *validator) cancel(at string, u Upstream) {
	v.enum(at, string(u.Cancel), u.Cancel.Values())
	if u.Cancel != CancelNotify && u.Era == EraModern && u.URL != "" {
		v.problem(at, "%s does nothing beside an url and era: modern, where to close the stream is to cancel; remove it", u.Cancel)
	}
}

func (v *validator) transport(at string, u Upstream) {
	v.enum(at+".transport", string(u.Transport), u.Transport.Values())
	switch {
	case u.Transport != TransportSSE:
	case len(u.Command) > 0:
		v.problem(at+".transport", "is for an url; a command is spoken to on stdio, so remove it")
	case u.Era == EraModern:
		v.problem(at+".era", "modern does not go with transport: sse, which is of 2024-11-05; remove one of them")
	}
}

func (v *validator) url(at, s string) {
	u, err := url.Parse(s)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		v.problem(at, "%q is not an http:// or https:// URL", redact(s))
	case u.User != nil:
		v.problem(at, "holds credentials; write them as headers: {Authorization: env:NAME}")
	case u.Fragment != "":
		v.problem(at, "ends in #%s, which is never sent; remove it", u.Fragment)
	}
}

// redact hides what may be a password in something that is not even an URL.
func redact(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		return "…" + s[i:]
	}
	return s
}

func (v *validator) headers(at string, u Upstream) {
	if len(u.Headers) > 0 && len(u.Command) > 0 {
		v.problem(at+".headers", "cannot be sent to a command; remove them")
	}
	for _, name := range slices.Sorted(maps.Keys(u.Headers)) {
		s, path := u.Headers[name], fmt.Sprintf("%s.headers.%s", at, name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			v.problem(path, "is not a header name")
		case isOurs(name):
			v.problem(path, "is set by the gateway itself; remove it")
		case carriesCredentials(name) && !s.IsReference() && s.Value() != "":
			v.problem(path, "is written out; keep it elsewhere and write env:NAME or file:PATH")
		case !httpguts.ValidHeaderFieldValue(s.Value()):
			v.problem(path, "has a value that cannot be sent in a header, such as one with a line break")
		}
	}
}

// isOurs tells headers that belong to the protocol or to the connection.
func isOurs(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return strings.HasPrefix(name, "Mcp-") || slices.Contains([]string{
		"Accept", "Connection", "Content-Length", "Content-Type", "Host", "Keep-Alive", "Last-Event-Id",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}, name)
}
