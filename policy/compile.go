package policy

import (
	"cmp"
	"fmt"
	"sync"

	"cel.dev/cel-go/cel"
)

// compile makes a set of files that were read, for a gateway whose conditions
// see some headers. With errors among the findings there is no set.
func compile(contents []content, sees Sees) (*Set, Findings) {
	c := &compiler{env: sync.OnceValues(newEnvironment), sees: sees}
	for _, in := range contents {
		f, findings := parseFile(in.name, in.data)
		c.files, c.findings = append(c.files, f), append(c.findings, findings...)
	}
	c.base()
	c.checkSettings(c.fallback)
	for _, f := range c.files {
		for i := range f.doc.Rules {
			c.rule(f, i)
		}
	}
	c.findings.sort()
	if c.findings.Failed() {
		return nil, c.findings
	}
	set := &Set{rules: c.rules, fallback: c.fallback, warnings: c.findings, hash: hashOf(contents)}
	set.findJobs()
	return set, c.findings
}

type compiler struct {
	env      func() (*cel.Env, error) // made for the first condition: it takes half a megabyte
	sees     Sees
	files    []*file
	rules    []*rule
	fallback *rule
	findings Findings
}

func (c *compiler) find(sev Severity, f *file, line int, format string, args ...any) {
	c.findings = append(c.findings, Finding{sev, f.name, line, fmt.Sprintf(format, args...)})
}

// base makes the fallback rule of all files' defaults and the one profile.
func (c *compiler) base() {
	c.fallback = &rule{name: "defaults", path: "defaults"}
	for _, f := range c.files {
		if f.doc.Defaults != nil {
			c.defaults(f)
		}
	}
	c.profile()
	c.fallback.layers = append(c.fallback.layers, builtIn())
	c.fallback.decide()
}

// profile adds the profile that one of the files may name.
func (c *compiler) profile() {
	var first *file
	for _, f := range c.files {
		switch {
		case f.doc.Profile == "":
		case first != nil:
			c.find(Error, f, f.lines["profile"], "profile: %s sets it already; keep one of the two", source(first.name, first.lines["profile"]))
		default:
			first = f
		}
	}
	if first == nil {
		return
	}
	c.fallback.layers = append(c.fallback.layers, first.doc.Profile.layer())
	if c.fallback.file == nil {
		c.fallback.file, c.fallback.path = first, "profile"
	}
}

// defaults adds a file's defaults to those of the others. Each field may be set
// in one of them only: which one wins would depend on the names of the files.
func (c *compiler) defaults(f *file) {
	l := layer{settings: f.doc.Defaults, level: "defaults", parent: "defaults", file: f}
	for _, other := range c.fallback.layers {
		for _, field := range both(l, other) {
			c.find(Error, f, f.line("defaults", field), "defaults.%s: %s sets it already; keep one of the two", field, other.origin(field).Source)
		}
	}
	c.fallback.layers = append(c.fallback.layers, l)
	if c.fallback.file == nil {
		c.fallback.file = f
	}
}

// rule compiles rule i of a file.
func (c *compiler) rule(f *file, i int) {
	doc := &f.doc.Rules[i]
	r := &rule{file: f, path: rulePath(i), name: doc.Name}
	own := layer{settings: &doc.settings, level: "rule", parent: r.path, file: f}
	r.layers = append(layers{own}, c.fallback.layers...)
	c.match(r, cmp.Or(doc.Match, &match{}))
	c.name(r)
	r.decide()
	c.checkSettings(r)
	if c.saysWhen(r, doc.Match) {
		c.checkReach(r)
	}
	c.rules = append(c.rules, r)
}

// name gives a rule without a name one that says what it matches. Such names may
// repeat; those that were chosen may not.
func (c *compiler) name(r *rule) {
	if r.name == "" {
		r.name = r.upstream.text + "/" + r.tool.text
		return
	}
	if r.name == c.fallback.name {
		c.find(Error, r.file, r.file.line(r.path, "name"), "%s.name: %q is what a decision by no rule is called; choose another", r.path, r.name)
	}
	for _, other := range c.rules {
		if other.name == r.name {
			c.find(Error, r.file, r.file.line(r.path, "name"), "%s.name: %q is the name of %s already; choose another", r.path, r.name, other.source())
			return
		}
	}
}

// saysWhen wants a rule to say which calls it is for.
func (c *compiler) saysWhen(r *rule, m *match) bool {
	if m != nil && *m != (match{}) {
		return true
	}
	if !r.file.broken(r.path) && (m == nil || !r.file.saysAny(r.path+".match")) {
		c.find(Error, r.file, r.file.lines[r.path], "%s: match is missing; write match: {tool: \"*\"} for every call, or use defaults", r.path)
	}
	return false
}

// match compiles what a rule matches. Empty text says neither everything nor
// nothing, so it may not be written.
func (c *compiler) match(r *rule, m *match) {
	r.upstream = c.pattern(r, "upstream", m.Upstream)
	r.tool = c.pattern(r, "tool", m.Tool)
	c.when(r, m.When)
	for _, field := range []struct{ name, text string }{{"upstream", m.Upstream}, {"tool", m.Tool}, {"when", m.When}} {
		path := r.path + ".match." + field.name
		if line, ok := r.file.lines[path]; ok && field.text == "" && !r.file.broken(path) {
			c.find(Error, r.file, line, "%s: is empty; remove the key to match everything", path)
		}
	}
}

func (c *compiler) when(r *rule, text string) {
	if text == "" {
		return
	}
	at := r.path + ".match"
	env, err := c.env()
	if err == nil { // else there is a mistake in this package
		r.when, err = compileWhen(env, text)
	}
	if err != nil {
		c.find(Error, r.file, r.file.line(at, "when"), "%s.when: %v", at, err)
		r.when = &condition{text: text} // not a rule that always applies
	}
	for _, name := range r.when.headers {
		if wrong := c.sees.check(name); wrong != "" {
			c.find(Error, r.file, r.file.line(at, "when"), "%s.when: %s", at, wrong)
		}
	}
}

func (c *compiler) pattern(r *rule, field, text string) pattern {
	p, err := compilePattern(text)
	if err != nil {
		c.find(Error, r.file, r.file.line(r.path+".match", field), "%s.match.%s: %v", r.path, field, err)
	}
	return p
}

// decide freezes what the rule's layers say.
func (r *rule) decide() {
	r.decision, _ = r.layers.resolve()
	r.decision.Rule, r.decision.Source = r.name, r.source()
}

func (r *rule) source() string {
	if r.file == nil {
		return "built-in"
	}
	return source(r.file.name, r.file.lines[r.path])
}
