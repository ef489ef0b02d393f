package policy

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText writes the explanation for people.
func (e Explanation) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s is decided by %q at %s.\n", e.Query.Tool, e.Query.Upstream, e.Decision.Rule, e.Decision.Source)
	e.passed(&b)
	e.values(&b)
	e.learned(&b)
	e.limits(&b)
	e.wire(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (e Explanation) passed(b *strings.Builder) {
	if len(e.Passed) == 0 {
		return
	}
	b.WriteString("\nRules before it:\n")
	table(b, len(e.Passed), func(i int) []string {
		p := e.Passed[i]
		return []string{p.Source, p.Rule, p.Why}
	})
}

func (e Explanation) values(b *strings.Builder) {
	b.WriteString("\nWhat holds:\n")
	table(b, len(e.Values), func(i int) []string {
		v := e.Values[i]
		return []string{v.Field, v.Text, strings.TrimSpace(v.Origin.Level + " " + v.Origin.Source)}
	})
}

func (e Explanation) learned(b *strings.Builder) {
	if len(e.Learned) == 0 {
		return
	}
	b.WriteString("\nWhat follows from how long the tool takes:\n")
	table(b, len(e.Learned), func(i int) []string {
		l := e.Learned[i]
		return []string{l.Field, l.Text, l.Why}
	})
}

func (e Explanation) limits(b *strings.Builder) {
	if len(e.Limits) == 0 {
		return
	}
	b.WriteString("\nTime limits, in the order in which a call meets them:\n")
	table(b, len(e.Limits), func(i int) []string {
		l := e.Limits[i]
		return []string{l.Name, limitText(l), l.Effect}
	})
	if l, ok := e.Smallest(); ok {
		fmt.Fprintf(b, "The smallest that ends something: %s, %s.\n", l.Name, short(l.After))
	} else {
		b.WriteString("None of them ends the call.\n")
	}
}

// limitText tells a limit that is met at once from one that does not exist.
func limitText(l Limit) string {
	if l.After == 0 && l.Name == "promoteAfter" {
		return "at once"
	}
	return orNone(l.After)
}

func (e Explanation) wire(b *strings.Builder) {
	declares := "declares"
	if !e.Declared {
		declares = "does not declare"
	}
	fmt.Fprintf(b, "\nOn the wire, for a client that %s io.modelcontextprotocol/tasks:\n", declares)
	for _, line := range e.Wire {
		fmt.Fprintf(b, "  %s\n", line)
	}
}

// table writes rows in columns, indented.
func table(b *strings.Builder, rows int, row func(int) []string) {
	tw := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for i := range rows {
		fmt.Fprintf(tw, "  %s\n", strings.Join(row(i), "\t"))
	}
	tw.Flush() // a strings.Builder never fails
}
