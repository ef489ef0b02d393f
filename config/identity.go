package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"taskgate/internal/strictyaml"
)

// Identity is one way to know a caller: exactly one of its fields is set. The
// first in the list that finds a credential of its kind decides.
type Identity struct {
	JWT            *JWT            `yaml:"jwt"`
	APIKeys        *APIKeys        `yaml:"apiKeys"`
	TrustedHeaders *TrustedHeaders `yaml:"trustedHeaders"`
	XFCC           *XFCC           `yaml:"xfcc"`
	MTLS           *MTLS           `yaml:"mtls"`
}

// kinds lists what is set.
func (i Identity) kinds() []string {
	var out []string
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"jwt", i.JWT != nil}, {"apiKeys", i.APIKeys != nil}, {"trustedHeaders", i.TrustedHeaders != nil},
		{"xfcc", i.XFCC != nil}, {"mtls", i.MTLS != nil},
	} {
		if k.set {
			out = append(out, k.name)
		}
	}
	return out
}

// ImpliedScopes says which narrower scopes one includes.
type ImpliedScopes struct {
	Scope    string   `yaml:"scope"`
	Includes []string `yaml:"includes"`
}

// JWT are access tokens of one issuer.
type JWT struct {
	Issuer string `yaml:"issuer"`
	// Audience lists values of aud that are good at every endpoint, beside the
	// endpoint's own URL and PublicURL.
	Audience []string `yaml:"audience"`
	// JWKSURL or JWKSFile is where the keys are; neither: where the issuer's
	// metadata say.
	JWKSURL    string        `yaml:"jwksURL"`
	JWKSFile   string        `yaml:"jwksFile"`
	Algorithms []string      `yaml:"algorithms"`
	Leeway     time.Duration `yaml:"leeway"`
	// Tenant is that of all subjects, unless TenantClaim names the claim with it.
	Tenant       string `yaml:"tenant"`
	TenantClaim  string `yaml:"tenantClaim"`
	SubjectClaim string `yaml:"subjectClaim"`
	// ScopesClaim is a string of words or a list; "": scope, else scp.
	ScopesClaim string `yaml:"scopesClaim"`
}

// SetDefaults implements strictyaml.Defaulter.
func (j *JWT) SetDefaults() {
	*j = JWT{Algorithms: []string{"RS256", "ES256"}, Leeway: 30 * time.Second, Tenant: defaultTenant, SubjectClaim: "sub"}
}

const defaultTenant = "default"

// APIKeys are random keys, of which only sums are known.
type APIKeys struct {
	// Header is where a key is sent: Authorization as a bearer token, any other
	// as it is.
	Header string   `yaml:"header"`
	Keys   []APIKey `yaml:"keys"`
	// File holds more of them, under "keys", and is read again when it changes.
	File string `yaml:"file"`
}

// SetDefaults implements strictyaml.Defaulter.
func (a *APIKeys) SetDefaults() { a.Header = "Authorization" }

// APIKey is one key.
type APIKey struct {
	Tenant  string   `yaml:"tenant"`
	Subject string   `yaml:"subject"`
	SHA256  Sum      `yaml:"sha256"`
	Scopes  []string `yaml:"scopes"`
}

// SetDefaults implements strictyaml.Defaulter.
func (k *APIKey) SetDefaults() { k.Tenant = defaultTenant }

// Sum is a SHA-256 sum in hexadecimal.
type Sum [32]byte

// UnmarshalText reads 64 hexadecimal digits.
func (s *Sum) UnmarshalText(text []byte) error {
	if sum, err := hex.DecodeString(string(text)); err != nil || copy(s[:], sum) != len(s) || len(sum) != len(s) {
		return errors.New("want the SHA-256 sum of the key, 64 hexadecimal digits")
	}
	return nil
}

// MarshalText writes what UnmarshalText reads.
func (s Sum) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(s[:])), nil }

// ParseAPIKeys reads a file of keys. The error has one line for each mistake.
func ParseAPIKeys(data []byte) ([]APIKey, error) {
	var doc struct {
		Keys []APIKey `yaml:"keys"`
	}
	_, mistakes := strictyaml.Decode(data, &doc)
	var errs []error
	for _, m := range mistakes {
		errs = append(errs, fmt.Errorf("line %d: %s", m.Line, m.Text()))
	}
	v := &validator{}
	v.apiKeyList("keys", doc.Keys)
	for _, p := range v.problems {
		errs = append(errs, fmt.Errorf("%s: %s", p.Path, p.Message))
	}
	return doc.Keys, errors.Join(errs...)
}

// TrustedHeaders are headers in which some peers, such as an ingress that has
// authenticated the caller, say who it is.
type TrustedHeaders struct {
	// Peers are CIDRs, addresses and SPIFFE ids. From others the headers are removed.
	Peers         []string `yaml:"peers"`
	SubjectHeader string   `yaml:"subjectHeader"`
	TenantHeader  string   `yaml:"tenantHeader"`
	ScopesHeader  string   `yaml:"scopesHeader"`
	// Tenant is that of all subjects, unless there is a TenantHeader.
	Tenant string `yaml:"tenant"`
}

// SetDefaults implements strictyaml.Defaulter.
func (t *TrustedHeaders) SetDefaults() { t.Tenant = defaultTenant }

// XFCC is Envoy's x-forwarded-client-cert, from some peers.
type XFCC struct {
	Peers []string   `yaml:"peers"`
	Names []NameRule `yaml:"names"`
}

// MTLS are the client certificates of the listener.
type MTLS struct {
	Names []NameRule `yaml:"names"`
}

// NameRule makes a principal of a name in a certificate. Without rules the
// SPIFFE id is the subject and its trust domain the tenant.
type NameRule struct {
	Field NameField `yaml:"field"`
	// Match is a regular expression for the whole name; Tenant and Subject may
	// use its groups, as $1 or ${name}.
	Match   string   `yaml:"match"`
	Tenant  string   `yaml:"tenant"`
	Subject string   `yaml:"subject"`
	Scopes  []string `yaml:"scopes"`
}

// SetDefaults implements strictyaml.Defaulter.
func (r *NameRule) SetDefaults() { *r = NameRule{Field: "uri", Tenant: defaultTenant, Subject: "$0"} }

// NameField is a kind of name in a certificate.
type NameField string

// Values lists the kinds of name.
func (NameField) Values() []string { return []string{"uri", "dns", "email", "cn", "subject"} }

// TLS is for the MCP listener.
type TLS struct {
	// CertFile and KeyFile are in PEM; they are read again when they change.
	CertFile string `yaml:"certFile" env:"CERT_FILE"`
	KeyFile  string `yaml:"keyFile" env:"KEY_FILE"`
	// ClientCAFile holds the authorities of client certificates; "": none are
	// asked for.
	ClientCAFile string     `yaml:"clientCAFile" env:"CLIENT_CA_FILE"`
	ClientAuth   ClientAuth `yaml:"clientAuth" env:"CLIENT_AUTH"`
	MinVersion   TLSVersion `yaml:"minVersion" env:"MIN_VERSION"`
}

// Enabled tells whether the listener speaks TLS.
func (t TLS) Enabled() bool { return t.CertFile != "" }

// ClientAuth says whether a client certificate is needed, once there is a
// ClientCAFile.
type ClientAuth string

// Client certificate requirements.
const (
	ClientRequired ClientAuth = "required"
	ClientOptional ClientAuth = "optional"
)

// Values lists the requirements.
func (ClientAuth) Values() []string { return []string{string(ClientRequired), string(ClientOptional)} }

// TLSVersion is the least version that is spoken.
type TLSVersion string

// Values lists the versions.
func (TLSVersion) Values() []string { return []string{"1.2", "1.3"} }

// Audit says where the audit log goes.
type Audit struct {
	// To is "none", "stderr" or a file, which is appended to.
	To string `yaml:"to" env:"TO"`
	// Reads adds requests that change nothing and were answered.
	Reads bool `yaml:"reads" env:"READS"`
}
