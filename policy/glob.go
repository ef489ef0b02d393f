package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gobwas/glob"
)

// maxStars bounds what matching one pattern can cost.
const maxStars = 8

// pattern is a glob over names. Its * crosses every character, also / and dots.
type pattern struct {
	text string
	glob *glob.Pattern // nil: text is to be equal, or matches everything
}

// compilePattern compiles text; "" matches everything, like "*".
func compilePattern(text string) (pattern, error) {
	p := pattern{text: text}
	if text == "" {
		p.text = "*"
	}
	if p.everything() || p.literal() {
		return p, nil
	}
	if strings.Count(text, "*") > maxStars {
		return p, fmt.Errorf("pattern %q has more than %d stars", text, maxStars)
	}
	g, err := glob.Compile(text)
	if bad := (*glob.SyntaxError)(nil); errors.As(err, &bad) {
		return p, fmt.Errorf("pattern %q: %s at character %d; write \\ before a character that is meant literally", text, bad.Reason, bad.Offset+1)
	}
	p.glob = g
	return p, err
}

func (p pattern) everything() bool { return p.text == "*" }

func (p pattern) literal() bool { return !strings.ContainsAny(p.text, `*?[]{}\`) }

func (p pattern) matches(name string) bool {
	if p.glob == nil {
		return p.everything() || p.text == name
	}
	return p.glob.Match(name)
}

// covers tells that p matches whatever other matches. It may say no to a pair
// that it does not understand, never yes wrongly.
//
// A character that no pattern contains can only be matched by a star of p: so
// when p matches other's text with such a character for each of its wildcards,
// p's stars take whatever those wildcards stand for.
func (p pattern) covers(other pattern) bool {
	switch {
	case p.everything() || p.text == other.text:
		return true
	case other.literal():
		return p.matches(other.text)
	case strings.ContainsAny(p.text, `?[\`) || strings.ContainsAny(other.text, `[{\`):
		return false
	}
	return p.matches(strings.NewReplacer("*", "\x00", "?", "\x00").Replace(other.text))
}
