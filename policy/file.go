package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"taskgate/internal/strictyaml"
)

// document is a policy file as it is written.
type document struct {
	Profile  Profile   `yaml:"profile"`
	Defaults *settings `yaml:"defaults"`
	Rules    []ruleDoc `yaml:"rules"`
}

// ruleDoc is one entry of rules.
type ruleDoc struct {
	Name     string `yaml:"name"`
	Match    *match `yaml:"match"`
	settings        // its fields are the rule's own
}

// match says which calls a rule is for. What is left out matches everything.
type match struct {
	Upstream string `yaml:"upstream"`
	Tool     string `yaml:"tool"`
	When     string `yaml:"when"` // in CEL
}

// settings are the fields that rules and defaults share; nil: not said here.
type settings struct {
	Task         *Mode          `yaml:"task"`
	PromoteAfter *promoteWait   `yaml:"promoteAfter"`
	Timeout      *time.Duration `yaml:"timeout"`
	IdleTimeout  *time.Duration `yaml:"idleTimeout"`
	TTL          *time.Duration `yaml:"ttl"`
	PollInterval *pollWait      `yaml:"pollInterval"`
	Auto         *Auto          `yaml:"auto"`
	Input        *InputMode     `yaml:"input"`
	InputTimeout *InputTimeout  `yaml:"inputTimeout"`
	OnLoss       *OnLoss        `yaml:"onLoss"`
	MaxAttempts  *int           `yaml:"maxAttempts"`
	Concurrency  *Concurrency   `yaml:"concurrency"`
	Dedupe       *Dedupe        `yaml:"dedupe"`
	Undeclared   *Undeclared    `yaml:"undeclared"`
	Scopes       *[]string      `yaml:"scopes"`
	Share        *Share         `yaml:"share"`
}

// file is one policy file that was read.
type file struct {
	name  string
	doc   document
	lines strictyaml.Lines
	// mistakes are what the YAML reader found.
	mistakes []strictyaml.Mistake
}

// parseFile reads a file; what the YAML reader finds are errors.
func parseFile(name string, data []byte) (*file, Findings) {
	f := &file{name: name}
	f.lines, f.mistakes = strictyaml.Decode(data, &f.doc)
	var out Findings
	for _, m := range f.mistakes {
		out = append(out, Finding{Error, name, m.Line, m.Text()})
	}
	return f, out
}

// broken tells that the YAML reader found a mistake at path or below it.
func (f *file) broken(path string) bool {
	return slices.ContainsFunc(f.mistakes, func(m strictyaml.Mistake) bool {
		rest, ok := strings.CutPrefix(m.Path, path)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// saysAny tells that something is written below path.
func (f *file) saysAny(path string) bool {
	for at := range f.lines {
		if strings.HasPrefix(at, path+".") {
			return true
		}
	}
	return false
}

// rulePath is where rule i is found in its file.
func rulePath(i int) string { return fmt.Sprintf("rules[%d]", i) }

// line is where a path is written, or else its parent.
func (f *file) line(parent, field string) int {
	if n, ok := f.lines[parent+"."+field]; ok {
		return n
	}
	return f.lines[parent]
}
