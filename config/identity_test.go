package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestIdentityDocumentation loads every example of docs/identity.md, and wants
// one for each kind of identity and each way to identify oneself to an upstream.
func TestIdentityDocumentation(t *testing.T) {
	text, err := os.ReadFile("../docs/identity.md")
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		path := filepath.Join(t.TempDir(), "doc.yaml")
		yaml := strings.ReplaceAll(m[1], "file:/var/run/secrets/tokens/reports", "file:"+token)
		if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(path, []string{"CLIENT_SECRET=x"}, nil)
		if err != nil {
			t.Errorf("%v in\n%s", err, m[1])
			continue
		}
		for _, id := range c.Identity {
			seen[id.kinds()[0]] = true
		}
		for _, u := range c.Upstreams {
			seen[string(u.Auth.Mode)] = true
		}
	}
	for _, want := range append(AuthMode("").Values(), "jwt", "apiKeys", "trustedHeaders", "xfcc", "mtls") {
		if !seen[want] {
			t.Errorf("no example of %s", want)
		}
	}
}

func TestParseAPIKeys(t *testing.T) {
	const sum = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
	keys, err := ParseAPIKeys([]byte("keys:\n  - {subject: ci, sha256: " + sum + ", scopes: [a]}\n  - {tenant: acme, subject: cd, sha256: a" + sum[1:] + "}\n"))
	if err != nil || len(keys) != 2 || keys[0].Tenant != "default" || keys[0].Subject != "ci" || keys[1].Tenant != "acme" || !slices.Equal(keys[0].Scopes, []string{"a"}) {
		t.Errorf("got %+v, %v", keys, err)
	}
	if text, err := keys[0].SHA256.MarshalText(); err != nil || string(text) != sum {
		t.Errorf("got %s, %v", text, err)
	}
	_, err = ParseAPIKeys([]byte("keys:\n  - {subject: ci, sha256: " + sum + "}\n  - {subject: cd, sha256: " + sum + "}\n  - {subjcet: x}\n"))
	want := `line 4: keys[2]: unknown key "subjcet"; did you mean subject?
keys[1].sha256: is that of keys[0] already; give each its own key
keys[2]: needs a tenant and a subject
keys[2].sha256: is missing; write the SHA-256 sum of the key`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

// TestSecretsOfUpstreamsAreNotPrinted, wherever they stand.
func TestSecretsOfUpstreamsAreNotPrinted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	yaml := `
publicURL: http://127.0.0.1:8080
identity: [{jwt: {issuer: "https://login.example.com"}}]
upstreams:
  - {name: a, path: /a, url: "http://127.0.0.1:1/", auth: {mode: static, token: env:TASKGATE_A}}
  - {name: b, path: /b, url: "http://127.0.0.1:1/", auth: {mode: exchange, tokenURL: "https://login.example.com/token", clientID: x, clientSecret: env:TASKGATE_B}}
`
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"TASKGATE_A=s3cret-a", "TASKGATE_B=s3cret-b"}
	c, err := Load(path, environ, nil)
	if err != nil || c.Upstreams[0].Auth.Token.Value() != "s3cret-a" || c.Upstreams[1].Auth.ClientSecret.Value() != "s3cret-b" {
		t.Fatalf("got %+v, %v", c.Upstreams, err)
	}
	if unknown := UnknownVariables(environ, c); len(unknown) > 0 {
		t.Errorf("variables that secrets refer to are called unknown: %v", unknown)
	}
	if _, err := Load(path, nil, nil); err == nil || !strings.Contains(err.Error(), "upstreams[0].auth.token: the environment variable TASKGATE_A is not set") {
		t.Errorf("got %v", err)
	}
}
