package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"taskgate/internal/strictyaml"
)

// Tool is what an upstream lists of one of its tools.
type Tool struct {
	Name        string          `json:"name"`
	Annotations json.RawMessage `json:"annotations"`
}

// Upstream is what is known of an upstream.
type Upstream struct {
	Tools []Tool // nil: not known
	// JobPrefix begins the names of the tools for jobs there.
	JobPrefix string
}

// Check compares a set with the tools that really exist, by the names of all
// upstreams: patterns that match nothing, calls that would be run again although
// their tool does not allow it, and tools whose names jobs need.
func Check(s *Set, upstreams map[string]Upstream) Findings {
	k := &checkAgainst{set: s, upstreams: upstreams}
	for _, r := range s.rules {
		k.patterns(r)
	}
	for _, u := range slices.Sorted(maps.Keys(upstreams)) {
		for _, t := range upstreams[u].Tools {
			for _, r := range s.search(u, t.Name) {
				k.rerun(r, t)
			}
		}
		k.jobs(u)
	}
	k.findings.sort()
	return k.findings
}

// CheckFiles loads files as the gateway would, compares them with
// upstreams unless that is nil, and writes what it found. It returns whether there
// was no error.
func CheckFiles(w io.Writer, files []string, sees Sees, upstreams map[string]Upstream) (ok bool, err error) {
	set, loadErr := Load(files, sees)
	var findings Findings
	if errors.As(loadErr, &findings); loadErr == nil {
		findings = set.Warnings()
	}
	if set != nil && upstreams != nil {
		findings = append(slices.Clone(findings), Check(set, upstreams)...)
	}
	for _, f := range findings {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return false, err
		}
	}
	_, err = fmt.Fprintln(w, summary(set, findings))
	return !findings.Failed(), err
}

func summary(s *Set, fs Findings) string {
	errs := 0
	for _, f := range fs {
		if f.Severity == Error {
			errs++
		}
	}
	counts := fmt.Sprintf("errors: %d, warnings: %d", errs, len(fs)-errs)
	if s == nil {
		return counts
	}
	return fmt.Sprintf("rules: %d, %s", len(s.rules), counts)
}

type checkAgainst struct {
	set       *Set
	upstreams map[string]Upstream
	findings  Findings
}

func (k *checkAgainst) find(sev Severity, r *rule, field, format string, args ...any) {
	f := Finding{Severity: sev, File: "built-in", Message: fmt.Sprintf(format, args...)}
	if r.file != nil {
		f.File, f.Line = r.file.name, r.file.line(r.path, field)
	}
	if !slices.Contains(k.findings, f) {
		k.findings = append(k.findings, f)
	}
}

// patterns looks for what a rule's patterns match.
func (k *checkAgainst) patterns(r *rule) {
	var upstreams, names []string
	unknown := false
	for _, u := range slices.Sorted(maps.Keys(k.upstreams)) {
		if !r.upstream.matches(u) {
			continue
		}
		upstreams, unknown = append(upstreams, u), unknown || k.upstreams[u].Tools == nil
		for _, t := range k.upstreams[u].Tools {
			names = append(names, t.Name)
		}
	}
	switch {
	case len(upstreams) == 0:
		all := slices.Sorted(maps.Keys(k.upstreams))
		k.find(Warning, r, "match", "%s.match.upstream: %q matches no upstream%s", r.path, r.upstream.text, meant(r.upstream, all))
	case !unknown && !slices.ContainsFunc(names, r.tool.matches):
		k.find(Warning, r, "match", "%s.match.tool: %q matches no tool of %s%s", r.path, r.tool.text, strings.Join(upstreams, ", "), meant(r.tool, names))
	}
}

// meant says which names a pattern comes close to. A star may stand for the
// beginning or the end of a name.
func meant(p pattern, names []string) string {
	text := strings.NewReplacer("*", "", "?", "").Replace(p.text)
	byPart := map[string][]string{}
	for _, n := range names {
		end := min(len(text), len(n))
		for _, part := range []string{n, n[:end], n[len(n)-end:]} {
			byPart[part] = append(byPart[part], n)
		}
	}
	var near []string
	for _, part := range strictyaml.Nearest(text, slices.Sorted(maps.Keys(byPart))) {
		for _, n := range byPart[part] {
			if !slices.Contains(near, n) && len(near) < 3 {
				near = append(near, n)
			}
		}
	}
	if len(near) == 0 {
		return "; there are " + strings.Join(names[:min(5, len(names))], ", ")
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// rerun looks at whether the tool bears being called again.
func (k *checkAgainst) rerun(r *rule, t Tool) {
	if r.decision.OnLoss != LossReruns {
		return
	}
	hints, err := parseHints(t.Annotations)
	if err != nil {
		k.find(Warning, r, "onLoss", "%s.onLoss: the annotations of tool %q cannot be read: %v", r.path, t.Name, err)
	}
	switch {
	case hints.ReadOnly || hints.Idempotent:
	case hints.Destructive:
		k.find(Error, r, "onLoss", "%s.onLoss: rerun on tool %q, which says that it is destructive (destructiveHint); write fail", r.path, t.Name)
	default:
		k.find(Warning, r, "onLoss", "%s.onLoss: rerun on tool %q, which does not say that it is idempotent (idempotentHint); make sure, or write fail", r.path, t.Name)
	}
}

// jobs looks for tools that have the names which jobs need.
func (k *checkAgainst) jobs(u string) {
	up := k.upstreams[u]
	i := slices.IndexFunc(up.Tools, func(t Tool) bool { return k.set.jobRule(u, t.Name) != nil })
	if i < 0 {
		return
	}
	r, taken := k.set.jobRule(u, up.Tools[i].Name), JobTools(up.JobPrefix)
	for _, t := range up.Tools {
		if slices.Contains(taken, t.Name) {
			k.find(Error, r, "undeclared", "%s.undeclared: jobs need a tool %q, and %s lists one of that name, so no call there becomes a job; set the jobPrefix of upstream %q", r.path, t.Name, u, u)
		}
	}
}
