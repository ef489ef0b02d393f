package wire

// Meta is what a modern request says about itself in params._meta.
type Meta struct {
	Version       string
	ClientInfo    Raw // nil when absent; it is optional
	Capabilities  Capabilities
	ProgressToken Raw    // nil when the client wants no progress
	LogLevel      string // "" when the client wants no log messages
}

// IsModern tells whether params carry the per-request protocol version that
// sets a modern request apart from a legacy one, whatever the headers say
// (basic/versioning#backward-compatibility).
func IsModern(params Raw) bool {
	p, err := ParseObject(params)
	if err != nil {
		return false
	}
	m, err := ParseObject(p.Get("_meta"))
	return err == nil && m.Get(MetaVersion) != nil
}

var metaMembers = []string{MetaVersion, MetaClientInfo, MetaCapabilities, MetaLogLevel, MetaProgressToken}

// ParseMeta reads params._meta of a modern request. It wants the two members
// that basic/index#meta requires and names the one that is missing.
func ParseMeta(params Object) (Meta, *Error) {
	raw := params.Get("_meta")
	if raw == nil {
		return Meta{}, Errorf(CodeInvalidParams, "Invalid params: params._meta is missing; it must carry %q and %q", MetaVersion, MetaCapabilities)
	}
	o, err := ParseObject(raw)
	if err != nil {
		return Meta{}, Errorf(CodeInvalidParams, "Invalid params: params._meta: %v", err)
	}
	if got, want := o.ImpostorOf(metaMembers...); got != "" {
		return Meta{}, Errorf(CodeInvalidRequest, "Invalid request: member %q of params._meta could be taken for %q", got, want)
	}
	return readMeta(o)
}

func readMeta(o Object) (Meta, *Error) {
	m := Meta{ClientInfo: o.Get(MetaClientInfo), ProgressToken: o.Get(MetaProgressToken)}
	var ok bool
	if m.Version, ok = String(o.Get(MetaVersion)); !ok {
		return m, Errorf(CodeInvalidParams, "Invalid params: params._meta[%q] is missing or no string", MetaVersion)
	}
	caps, err := ParseObject(o.Get(MetaCapabilities))
	if err != nil {
		return m, Errorf(CodeInvalidParams, "Invalid params: params._meta[%q] is missing or no object", MetaCapabilities)
	}
	m.Capabilities = Capabilities{caps}
	m.LogLevel, _ = String(o.Get(MetaLogLevel))
	return m, nil
}

// Capabilities are a ClientCapabilities object: what the sender of one request
// can do. Nothing is remembered from one request to the next.
type Capabilities struct{ o Object }

// ParseCapabilities reads a stored ClientCapabilities object; whatever is no
// object declares nothing.
func ParseCapabilities(raw Raw) Capabilities {
	o, _ := ParseObject(raw)
	return Capabilities{o}
}

// Raw is the object as it was received, "{}" when there was none.
func (c Capabilities) Raw() Raw { return c.o.Bytes() }

// DeclaresTasks tells whether SEP-2663 is among the extensions. The 2025-11-25
// capability "tasks" does not count.
func (c Capabilities) DeclaresTasks() bool {
	ext, err := ParseObject(c.o.Get("extensions"))
	return err == nil && isObject(ext.Get(TasksExtension))
}

// Names of the server-to-client requests, which are also the kinds of input
// request (basic/patterns/mrtr).
const (
	MethodElicit   = "elicitation/create"
	MethodSampling = "sampling/createMessage"
	MethodRoots    = "roots/list"
)

// Answers returns nil when whoever declared these capabilities can answer the
// request, else the capability object that is missing.
func (c Capabilities) Answers(method string, params Raw) (missing Raw) {
	switch method {
	case MethodElicit:
		return c.answersElicitation(params)
	case MethodSampling:
		return c.needs("sampling")
	case MethodRoots:
		return c.needs("roots")
	}
	return Raw(`{}`)
}

func (c Capabilities) needs(name string) Raw {
	if isObject(c.o.Get(name)) {
		return nil
	}
	return Raw(`{"` + name + `":{}}`)
}

// answersElicitation: an elicitation capability that names no mode means form.
func (c Capabilities) answersElicitation(params Raw) Raw {
	mode := "form"
	if p, err := ParseObject(params); err == nil {
		if m, ok := String(p.Get("mode")); ok {
			mode = m
		}
	}
	e, err := ParseObject(c.o.Get("elicitation"))
	implied := err == nil && mode == "form" && e.Get("form") == nil && e.Get("url") == nil
	if implied || (err == nil && isObject(e.Get(mode))) {
		return nil
	}
	return Object{}.With("elicitation", Object{}.With(mode, Raw(`{}`)).Bytes()).Bytes()
}

func isObject(raw Raw) bool { return len(raw) > 0 && raw[0] == '{' }

// Interactive is the part of the capabilities that lets a server ask back:
// elicitation, sampling and roots as they were declared. It is what is
// announced to a legacy upstream on the caller's behalf.
func (c Capabilities) Interactive() Raw {
	var out Object
	for _, name := range []string{"elicitation", "roots", "sampling"} {
		if v := c.o.Get(name); isObject(v) {
			out = out.With(name, v)
		}
	}
	return out.Bytes()
}

// WithoutTasks is the object less the tasks extension: what is announced to a
// modern upstream whose tasks this gateway makes itself.
func (c Capabilities) WithoutTasks() Raw {
	o := c.o.Without("tasks")
	ext, err := ParseObject(o.Get("extensions"))
	if err != nil {
		return o.Bytes()
	}
	if ext = ext.Without(TasksExtension); len(ext) == 0 {
		return o.Without("extensions").Bytes()
	}
	return o.With("extensions", ext.Bytes()).Bytes()
}
