package config

import (
	"slices"
	"strings"
)

// aggregate looks at an upstream that joins others. Tools are called name__tool
// there, so that no name may make one that is another's.
func (v *validator) aggregate(at string, u Upstream, c Config) {
	if u.URL != "" || len(u.Command) > 0 {
		v.problem(at+".aggregate", "is set beside url or command; keep one of them")
	}
	if len(u.ForwardHeaders) > 0 || u.Auth.Mode != AuthNone {
		v.problem(at, "has auth or forwardHeaders, which do nothing for an aggregate; write them for its members")
	}
	for i, name := range u.Aggregate {
		v.member(item(at+".aggregate", i), name, u.Aggregate[:i], c)
	}
}

func (v *validator) member(at, name string, before []string, c Config) {
	i := slices.IndexFunc(c.Upstreams, func(u Upstream) bool { return u.Name == name })
	switch {
	case slices.Contains(before, name):
		v.problem(at, "%q is there twice; remove it here", name)
	case i < 0:
		v.problem(at, "%q is no upstream; write the name of one", name)
	case len(c.Upstreams[i].Aggregate) > 0:
		v.problem(at, "%q is an aggregate itself; write its members", name)
	case strings.Contains(name, "__") || strings.HasSuffix(name, "_"):
		short, _, _ := strings.Cut(strings.TrimRight(name, "_"), "__")
		v.problem(at, "%q has __ in it or _ at its end: a tool of %q and one of %q could have the same name; give %s another name", name, name, short, item("upstreams", i))
	}
}
