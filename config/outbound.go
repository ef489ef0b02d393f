package config

import "strings"

// UpstreamAuth is how requests identify themselves to an upstream.
type UpstreamAuth struct {
	Mode AuthMode `yaml:"mode"`
	// Token is sent by mode static. A file is read again when it changes.
	Token Secret `yaml:"token"`

	// TokenURL and those below belong to mode exchange (RFC 8693).
	TokenURL     string   `yaml:"tokenURL"`
	ClientID     string   `yaml:"clientID"`
	ClientSecret Secret   `yaml:"clientSecret"`
	SecretIn     SecretIn `yaml:"secretIn"`
	Audience     string   `yaml:"audience"`
	Resource     string   `yaml:"resource"`
	Scopes       []string `yaml:"scopes"`

	// ShortToken says what becomes of a call that may run longer than the token
	// which it forwards.
	ShortToken ShortToken `yaml:"shortToken"`
}

// AuthMode is a way to identify oneself to an upstream.
type AuthMode string

// Modes.
const (
	AuthNone     AuthMode = "none"
	AuthStatic   AuthMode = "static"   // a token of the gateway's own
	AuthForward  AuthMode = "forward"  // the client's own token
	AuthExchange AuthMode = "exchange" // a token in exchange for the client's
)

// Values lists the modes.
func (AuthMode) Values() []string {
	return []string{string(AuthNone), string(AuthStatic), string(AuthForward), string(AuthExchange)}
}

// SecretIn is where a client secret is sent.
type SecretIn string

// Places of a client secret.
const (
	SecretInHeader SecretIn = "header"
	SecretInBody   SecretIn = "body"
)

// Values lists the places.
func (SecretIn) Values() []string { return []string{string(SecretInHeader), string(SecretInBody)} }

// ShortToken says what to do about a token that may end before its call.
type ShortToken string

// What can be done.
const (
	ShortAllow  ShortToken = "allow"
	ShortWarn   ShortToken = "warn"   // log it
	ShortRefuse ShortToken = "refuse" // 401, so that the client gets a fresh one first
)

// Values lists what can be done.
func (ShortToken) Values() []string {
	return []string{string(ShortAllow), string(ShortWarn), string(ShortRefuse)}
}

// UpstreamTLS says whom https connections to an upstream trust, and how they
// prove who they are. The files are in PEM and are read again when they change.
type UpstreamTLS struct {
	// CAFile holds the authorities of the upstream's certificate; "": the system's.
	CAFile string `yaml:"caFile"`
	// CertFile and KeyFile are the gateway's own certificate; "": none is shown.
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
}

// ForwardHeader is a header of the client that an upstream gets.
type ForwardHeader struct {
	Name string `yaml:"name"`
	As   string `yaml:"as"` // its name toward the upstream; "": the same
	// Keep stores the value with a task, so that the call can be sent again when
	// the client is gone. It is not for credentials.
	Keep bool `yaml:"keep"`
}

// To is the header's name toward the upstream.
func (f ForwardHeader) To() string {
	if f.As != "" {
		return f.As
	}
	return f.Name
}

// File is the path that the secret refers to, if it refers to a file.
func (s Secret) File() (path string, ok bool) { return strings.CutPrefix(s.reference, "file:") }

func (a *UpstreamAuth) setDefaults() {
	*a = UpstreamAuth{Mode: AuthNone, SecretIn: SecretInHeader, ShortToken: ShortWarn}
}
