package auth

import (
	"errors"
	"net/http"
	"slices"
	"strings"
)

// HeaderXFCC is where Envoy says whose certificate it has seen.
const HeaderXFCC = "X-Forwarded-Client-Cert"

// XFCC takes the word of Envoy proxies on client certificates. Each proxy adds
// an element to the header; the caller is the last one that is not itself such
// a proxy, because what stands before it was only claimed.
type XFCC struct {
	peers Peers
	rules []NameRule
}

// NewXFCC returns an authenticator by the x-forwarded-client-cert that peers send.
func NewXFCC(peers Peers, rules []NameRule) *XFCC { return &XFCC{peers, rules} }

func (x *XFCC) strip(req *http.Request) {
	if !x.peers.trusts(req) {
		req.Header.Del(HeaderXFCC)
	}
}

// Authenticate implements Authenticator.
func (x *XFCC) Authenticate(req *http.Request, _ *Resource) (Identity, error) {
	values := req.Header.Values(HeaderXFCC)
	if len(values) == 0 || !x.peers.trusts(req) {
		return Identity{}, ErrNone
	}
	elements, err := parseXFCC(strings.Join(values, ","))
	if err != nil {
		return Identity{}, invalidToken("the header " + HeaderXFCC + " cannot be read")
	}
	p, scopes, err := x.caller(elements).principal(x.rules)
	if err != nil {
		return Identity{}, err
	}
	return Identity{Principal: p, Scopes: scopes, Method: "xfcc"}, nil
}

// caller is the last element that is not a trusted proxy's own, or the first.
func (x *XFCC) caller(elements []names) names {
	for i := len(elements) - 1; i > 0; i-- {
		if id, err := spiffeID(elements[i][FieldURI]); err != nil || !slices.Contains(x.peers.ids, id) {
			return elements[i]
		}
	}
	return elements[0]
}

var errXFCC = errors.New("malformed " + HeaderXFCC)

// parseXFCC reads elements that are separated by commas, each of key=value
// pairs that are separated by semicolons. A value may be in double quotes, in
// which a backslash makes the next character ordinary.
func parseXFCC(header string) ([]names, error) {
	elements := []names{{}}
	for rest := header; ; {
		var key, value string
		var end byte
		var err error
		if key, value, end, rest, err = nextPair(rest); err != nil {
			return nil, err
		}
		if field, ok := xfccField(key); ok && value != "" {
			last := elements[len(elements)-1]
			last[field] = append(last[field], strings.Clone(value)) // a caller is remembered longer than a header that may hold certificates
		}
		switch end {
		case 0:
			return elements, nil
		case ',':
			elements = append(elements, names{})
		}
	}
}

// xfccField tells which of Envoy's keys are names. By is the proxy itself.
func xfccField(key string) (Field, bool) {
	switch strings.ToLower(strings.TrimSpace(key)) {
	case "uri":
		return FieldURI, true
	case "dns":
		return FieldDNS, true
	case "subject":
		return FieldSubject, true
	}
	return "", false
}

// nextPair cuts off one pair. end is the separator after it, 0 at the end.
func nextPair(s string) (key, value string, end byte, rest string, err error) {
	key, s, ok := strings.Cut(s, "=")
	if !ok || strings.ContainsAny(key, `",;`) {
		return "", "", 0, "", errXFCC
	}
	if strings.HasPrefix(s, `"`) {
		if value, s, err = quoted(s[1:]); err != nil {
			return "", "", 0, "", err
		}
	} else {
		i := strings.IndexAny(s, `,;"`)
		if i < 0 {
			i = len(s)
		}
		value, s = s[:i], s[i:]
	}
	switch {
	case s == "":
		return key, value, 0, "", nil
	case s[0] == ',', s[0] == ';':
		return key, value, s[0], s[1:], nil
	}
	return "", "", 0, "", errXFCC
}

// quoted reads up to the closing quote.
func quoted(s string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], nil
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", errXFCC
}
