package strictyaml

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
)

// Nearest returns at most three of the words that word may have been meant as,
// the likeliest first.
func Nearest(word string, among []string) []string {
	type candidate struct {
		word     string
		distance int
	}
	var near []candidate
	for _, w := range among {
		d := levenshtein.Distance(strings.ToLower(word), strings.ToLower(w), nil)
		if d <= 1+max(len(word), len(w))/4 {
			near = append(near, candidate{w, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	var out []string
	for _, c := range near[:min(3, len(near))] {
		out = append(out, c.word)
	}
	return out
}

// suggestion says what to write instead of word.
func suggestion(word string, known []string) string {
	if near := Nearest(word, known); len(near) > 0 {
		return fmt.Sprintf("did you mean %s?", near[0])
	}
	return "write one of " + strings.Join(known, ", ")
}

var (
	yamlLine = regexp.MustCompile(`^line (\d+): `)
	bareStar = regexp.MustCompile(`[:,\[{-]\s*\*`)
)

// syntaxMistake turns an error of the YAML parser into a Mistake. The parser
// gives no line for what it takes for an alias, which is how an unquoted glob
// looks to it.
func syntaxMistake(data []byte, err error) Mistake {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if at := yamlLine.FindStringSubmatch(text); at != nil {
		line, _ = strconv.Atoi(at[1])
		text = strings.TrimPrefix(text, at[0])
	}
	if strings.Contains(text, "unknown anchor") || strings.Contains(text, "alphabetic or numeric character") {
		if at := bareStar.FindIndex(data); at != nil {
			return Mistake{Line: 1 + bytes.Count(data[:at[1]], []byte("\n")), Message: `a value that begins with * must be in quotes, as in "*"`}
		}
	}
	if indentedByTab(data, line) {
		return Mistake{Line: line, Message: "a tab; YAML is indented with spaces"}
	}
	return Mistake{Line: line, Message: "not valid YAML: " + text}
}

func indentedByTab(data []byte, line int) bool {
	lines := bytes.Split(data, []byte("\n"))
	if line < 1 || line > len(lines) {
		return false
	}
	text := lines[line-1]
	indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
	return bytes.ContainsRune(indent, '\t')
}
