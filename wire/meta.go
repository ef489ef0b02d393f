package wire

// Meta is what a modern request says about itself in params._meta.
type Meta struct {
	Version       string
	ClientInfo    Raw // nil when absent; it is optional
	Capabilities  Capabilities
	ProgressToken Raw    // nil when the client wants no progress
	LogLevel      string // "" when the client wants no log messages
}

// IsModern tells whether the params of a decoded message carry the per-request
// protocol version that sets a modern request apart from a legacy one, whatever
// the headers say (basic/versioning#backward-compatibility).
func IsModern(params Raw) bool {
	return Lookup(Lookup(params, "_meta"), MetaVersion) != nil
}

var metaMembers = []string{MetaVersion, MetaClientInfo, MetaCapabilities, MetaLogLevel, MetaProgressToken}

// ParseMeta reads params._meta of a modern request. It wants the two members
// that basic/index#meta requires and names the one that is missing.
func ParseMeta(params Object) (Meta, *Error) {
	o, ok := params.Object("_meta")
	if !ok {
		return Meta{}, Errorf(CodeInvalidParams, "Invalid params: params._meta is missing or no object; it must carry %q and %q", MetaVersion, MetaCapabilities)
	}
	if got, want := o.ImpostorOf(metaMembers...); got != "" {
		return Meta{}, Errorf(CodeInvalidRequest, "Invalid request: member %q of params._meta could be taken for %q", got, want)
	}
	m := Meta{ClientInfo: o.Get(MetaClientInfo), ProgressToken: o.Get(MetaProgressToken)}
	if isNull(m.ProgressToken) { // some clients write it where they have none
		m.ProgressToken = nil
	}
	if m.Version, ok = String(o.Get(MetaVersion)); !ok {
		return m, Errorf(CodeInvalidParams, "Invalid params: params._meta[%q] is missing or no string", MetaVersion)
	}
	m.LogLevel, _ = String(o.Get(MetaLogLevel))
	var err *Error
	m.Capabilities, err = readCapabilities(o)
	return m, err
}

var capabilityMembers = []string{"elicitation", "extensions", "roots", "sampling"}

func readCapabilities(meta Object) (Capabilities, *Error) {
	o, ok := meta.Object(MetaCapabilities)
	if !ok {
		return Capabilities{}, Errorf(CodeInvalidParams, "Invalid params: params._meta[%q] is missing or no object", MetaCapabilities)
	}
	if got, want := o.ImpostorOf(capabilityMembers...); got != "" {
		return Capabilities{}, Errorf(CodeInvalidRequest, "Invalid request: capability %q could be taken for %q", got, want)
	}
	return Capabilities{meta.Get(MetaCapabilities)}, nil
}

// Capabilities are a ClientCapabilities object: what the sender of one request
// can do. Nothing is remembered from one request to the next.
type Capabilities struct{ raw Raw } // an object; nil: there was none

// ParseCapabilities reads a stored ClientCapabilities object; whatever is no
// object declares nothing.
func ParseCapabilities(raw Raw) Capabilities {
	if _, err := splitObject(raw); err != nil {
		return Capabilities{}
	}
	return Capabilities{raw}
}

// Raw is the object as it was received, "{}" when there was none.
func (c Capabilities) Raw() Raw {
	if c.raw == nil {
		return Raw(`{}`)
	}
	return c.raw
}

// DeclaresTasks tells whether SEP-2663 is among the extensions. The 2025-11-25
// capability "tasks" does not count.
func (c Capabilities) DeclaresTasks() bool {
	return IsObject(Lookup(Lookup(c.raw, "extensions"), TasksExtension))
}

// DeclaresTasks2025 tells whether the client has the tasks of 2025-11-25. That
// capability is for tasks of the client's own, but whoever has those knows tasks.
func (c Capabilities) DeclaresTasks2025() bool { return IsObject(Lookup(c.raw, "tasks")) }

// Names of the server-to-client requests, which are also the kinds of input
// request (basic/patterns/mrtr).
const (
	MethodElicit   = "elicitation/create"
	MethodSampling = "sampling/createMessage"
	MethodRoots    = "roots/list"
)

// Answers returns nil when whoever declared these capabilities can answer the
// request, else the capability object that is missing; that is empty for a
// method that no client answers.
func (c Capabilities) Answers(method string, params Raw) (missing Raw) {
	p, _ := splitObject(params)
	switch method {
	case MethodElicit:
		return c.answersElicitation(p)
	case MethodSampling:
		return c.answersSampling(p)
	case MethodRoots:
		return c.needs("roots", "")
	}
	return Raw(`{}`)
}

// answersElicitation: an elicitation capability that names no mode means form.
func (c Capabilities) answersElicitation(params Object) Raw {
	mode, ok := String(params.Get("mode"))
	if !ok {
		mode = "form"
	}
	e, declared := c.member("elicitation")
	if declared && mode == "form" && e.Get("form") == nil && e.Get("url") == nil {
		return nil
	}
	return c.needs("elicitation", mode)
}

// answersSampling: a request that brings tools needs more than plain sampling.
func (c Capabilities) answersSampling(params Object) Raw {
	if params.Get("tools") != nil || params.Get("toolChoice") != nil {
		return c.needs("sampling", "tools")
	}
	return c.needs("sampling", "")
}

// needs returns nil when the capability, and the part of it unless that is "",
// is declared, else the object that would declare it.
func (c Capabilities) needs(name, part string) (missing Raw) {
	o, ok := c.member(name)
	switch {
	case ok && (part == "" || IsObject(o.Get(part))):
		return nil
	case part == "":
		return Object{}.With(name, Raw(`{}`)).Bytes()
	}
	return Object{}.With(name, Object{}.With(part, Raw(`{}`)).Bytes()).Bytes()
}

// member is a capability; ok is false when it is not declared.
func (c Capabilities) member(name string) (o Object, ok bool) {
	o, err := splitObject(Lookup(c.raw, name))
	return o, err == nil
}

// IsObject tells valid JSON that is an object.
func IsObject(raw Raw) bool { return len(raw) > 0 && raw[0] == '{' }

// Interactive is the part of the capabilities that lets a server ask back:
// elicitation, sampling and roots as they were declared. It is what is
// announced to a legacy upstream on the caller's behalf.
func (c Capabilities) Interactive() Raw {
	var out Object
	for _, name := range []string{"elicitation", "roots", "sampling"} {
		if v := Lookup(c.raw, name); IsObject(v) {
			out = out.With(name, v)
		}
	}
	return out.Bytes()
}

// WithTasks is the object with the tasks extension declared.
func (c Capabilities) WithTasks() Raw {
	o, _ := splitObject(c.raw)
	extensions, _ := o.Object("extensions")
	if IsObject(extensions.Get(TasksExtension)) {
		return c.Raw()
	}
	return o.With("extensions", extensions.With(TasksExtension, Raw(`{}`)).Bytes()).Bytes()
}

// WithoutTasks is the object less the tasks extension and the "tasks" of
// 2025-11-25: what is announced to a modern upstream whose tasks this gateway
// makes itself.
func (c Capabilities) WithoutTasks() Raw {
	o, _ := splitObject(c.raw)
	return withoutExtension(o.Without("tasks"))
}

// WithoutExtension is the object less the tasks extension.
func (c Capabilities) WithoutExtension() Raw {
	o, _ := splitObject(c.raw)
	return withoutExtension(o)
}

func withoutExtension(o Object) Raw {
	extensions, ok := o.Object("extensions")
	rest := extensions.Without(TasksExtension)
	switch {
	case ok && len(rest) == 0:
		return o.Without("extensions").Bytes()
	case !rest.is(extensions):
		return o.With("extensions", rest.Bytes()).Bytes()
	}
	return o.Bytes()
}
