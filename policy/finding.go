package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity tells what must be mended from what should be looked at.
type Severity string

// Severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Finding is one thing to say about a policy file.
type Finding struct {
	Severity Severity
	File     string
	Line     int // 0: the file as a whole
	Message  string
}

// String is "file:line: severity: message".
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s", source(f.File, f.Line), f.Severity, f.Message)
}

// Findings are what a check found, in the order of files and lines. With an
// error among them they are the error that Load returns.
type Findings []Finding

// Error has one line for each finding.
func (fs Findings) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// Failed tells whether there is an error among the findings.
func (fs Findings) Failed() bool {
	return slices.ContainsFunc(fs, func(f Finding) bool { return f.Severity == Error })
}

func (fs Findings) sort() {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

func source(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}
