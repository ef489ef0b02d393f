package policy

import (
	"reflect"
	"regexp"
	"slices"
	"time"
)

// said lists the fields that a layer sets.
func (l layer) said() []string {
	var out []string
	v := reflect.ValueOf(l.settings).Elem()
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			out = append(out, v.Type().Field(i).Tag.Get("yaml"))
		}
	}
	return out
}

// both lists the fields that two layers set.
func both(a, b layer) []string {
	return slices.DeleteFunc(a.said(), func(f string) bool { return !slices.Contains(b.said(), f) })
}

// checkSettings looks at what a rule, or the defaults, set and at how that goes
// together with what they leave to others. A conflict is reported where one of
// its fields is set, so that the conflict of two defaults is reported once.
func (c *compiler) checkSettings(r *rule) {
	for _, l := range r.layers {
		if l.file == nil || (l.level == "defaults") != (r == c.fallback) {
			continue
		}
		k := check{c: c, r: r, l: l, d: r.decision}
		k.durations()
		k.limits()
		k.mode()
		k.crash()
		k.scopes()
	}
}

// check is the look at one layer of a rule.
type check struct {
	c *compiler
	r *rule
	l layer
	d Decision
}

// find reports against the first of fields that the layer sets; a field that it
// does not set is no concern of this layer.
func (k *check) find(sev Severity, fields []string, format string, args ...any) {
	said := k.l.said()
	for _, f := range fields {
		if slices.Contains(said, f) {
			args = append([]any{k.l.parent, f}, args...)
			k.c.find(sev, k.l.file, k.l.file.line(k.l.parent, f), "%s.%s: "+format, args...)
			return
		}
	}
}

func (k *check) durations() {
	d := k.d
	if d.PollInterval < time.Millisecond {
		k.find(Error, []string{"pollInterval"}, "%s would have clients poll without a pause; write 1s", short(d.PollInterval))
	}
	k.auto()
	if d.Timeout > 0 && d.PromoteAfter >= d.Timeout && !d.learns.promoteAfter && d.Task != Forbidden {
		k.find(Error, []string{"promoteAfter", "timeout", "task"},
			"promoteAfter %s is not below timeout %s: the call would end before it becomes a task; raise timeout, lower promoteAfter, or write task: forbidden", short(d.PromoteAfter), short(d.Timeout))
	}
	if d.Timeout > 0 && d.IdleTimeout >= d.Timeout {
		k.find(Warning, []string{"idleTimeout"}, "idleTimeout %s does nothing beside timeout %s; lower it or leave it out", short(d.IdleTimeout), short(d.Timeout))
	}
	if d.Timeout > 0 && d.InputTimeout.After >= d.Timeout {
		k.find(Warning, []string{"inputTimeout"}, "inputTimeout %s does nothing beside timeout %s, which ends the call first; raise timeout or lower it", short(d.InputTimeout.After), short(d.Timeout))
	}
	k.ttl()
}

// auto looks at the bounds of what is learned, whether anything is or not.
func (k *check) auto() {
	a := k.d.Auto
	if a.Min > a.Max || a.MinPoll > a.MaxPoll || a.MinPoll < time.Millisecond {
		k.find(Error, []string{"auto"}, "min %s to max %s and minPoll %s to maxPoll %s must each go up, and minPoll be 1ms or more", short(a.Min), short(a.Max), short(a.MinPoll), short(a.MaxPoll))
	}
	if k.d.learns.promoteAfter && k.d.Timeout > 0 && a.Max >= k.d.Timeout {
		k.find(Error, []string{"auto", "promoteAfter", "timeout"}, "auto.max %s is not below timeout %s: the call could end before it becomes a task; lower it or raise timeout", short(a.Max), short(k.d.Timeout))
	}
}

func (k *check) ttl() {
	switch d := k.d; {
	case d.TTL == 0 || d.Task == Forbidden:
	case d.Timeout == 0:
		k.find(Warning, []string{"ttl", "timeout"}, "ttl %s beside timeout none: a result that comes late may be gone before it is fetched; write timeout, or ttl: 0s, which is unlimited", short(d.TTL))
	case d.TTL < d.Timeout:
		k.find(Warning, []string{"ttl", "timeout"}, "ttl %s is shorter than timeout %s: a result that comes late may be gone before it is fetched; write ttl: %s or more", short(d.TTL), short(d.Timeout), short(d.Timeout+time.Hour))
	}
}

func (k *check) limits() {
	d := k.d
	if d.Concurrency.Limit == 0 && d.Concurrency.Queue > 0 {
		k.find(Error, []string{"concurrency"}, "queue without limit: nothing would ever wait; write limit")
	}
	if d.MaxAttempts < 1 {
		k.find(Error, []string{"maxAttempts"}, "a call is sent at least once; write 1 or more")
	}
	if !slices.Contains(d.Dedupe.By, ByPrincipal) || !slices.Contains(d.Dedupe.By, ByTool) {
		k.find(Error, []string{"dedupe"}, "by must name principal and tool: one caller never gets another's result")
	}
}

func (k *check) mode() {
	set := k.l.settings
	switch {
	case set.Task != nil && *set.Task == Required && set.Undeclared != nil && *set.Undeclared == Hold:
		k.find(Error, []string{"undeclared"}, "hold contradicts task: required, which rejects clients that did not declare the extension; write task: optional or undeclared: jobs, or leave undeclared out")
	case k.d.Task == Forbidden && set.Input != nil && *set.Input == InputTask:
		k.find(Error, []string{"input"}, "task contradicts task: forbidden; write mrtr, or leave input out")
	case k.d.Task == Forbidden && k.l.level == "rule":
		for _, f := range []string{"promoteAfter", "ttl", "pollInterval", "undeclared", "onLoss", "share"} {
			k.find(Warning, []string{f}, "does nothing beside task: forbidden; leave it out")
		}
	}
}

func (k *check) crash() {
	d := k.d
	if d.OnLoss == LossReruns && d.MaxAttempts < 2 {
		k.find(Error, []string{"onLoss", "maxAttempts"}, "onLoss: rerun with maxAttempts: %d never runs a call again; write maxAttempts: 2", d.MaxAttempts)
	}
	if d.OnLoss == LossFails && d.MaxAttempts > 1 {
		k.find(Warning, []string{"maxAttempts"}, "maxAttempts: %d does nothing with onLoss: fail; write onLoss: rerun if the tool is idempotent", d.MaxAttempts)
	}
}

// scopeToken is RFC 6749, appendix A.4.
var scopeToken = regexp.MustCompile(`^[\x21\x23-\x5B\x5D-\x7E]+$`)

func (k *check) scopes() {
	for _, s := range k.d.Scopes {
		if !scopeToken.MatchString(s) {
			k.find(Error, []string{"scopes"}, "%q is not a scope: it may not hold spaces, quotes or backslashes", s)
		}
	}
}

// checkReach compares a rule with those before it.
func (c *compiler) checkReach(r *rule) {
	for _, before := range c.rules {
		switch {
		case before.sameMatch(r):
			c.find(Error, r.file, r.file.lines[r.path], "%s: same match as %s, so it never applies; remove one of the two", r.path, before.source())
			return
		case before.when == nil && before.upstream.covers(r.upstream) && before.tool.covers(r.tool):
			c.find(Error, r.file, r.file.lines[r.path], "%s: never applies, since %s matches everything that it matches; move it up or remove it", r.path, before.source())
			return
		}
	}
}

func (r *rule) sameMatch(other *rule) bool {
	return r.upstream.text == other.upstream.text && r.tool.text == other.tool.text && r.whenText() == other.whenText()
}

func (r *rule) whenText() string {
	if r.when == nil {
		return ""
	}
	return r.when.text
}
