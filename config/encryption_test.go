package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBadEncryptionIsExplained(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	environ := []string{"GOOD=" + strings.Repeat("ab", 32), "SAME=" + strings.Repeat("AB", 32), "SHORT=c2hvcnQ="}
	for encryption, want := range map[string]string{
		"{keys: [env:SHORT]}":          "c.yaml:2: encryption.keys[0]: is no key of 32 bytes: want 64 hexadecimal digits, or 44 characters of Base64, and there are 8 characters; make one with: openssl rand -base64 32",
		"{keys: [env:GOOD, env:SAME]}": "is that of encryption.keys[0] already; give each its own",
		"{keys: [env:MISSING]}":        "encryption.keys[0]: the environment variable MISSING is not set",
		"{keys: [c2hvcnQ=]}":           "encryption.keys[0]: must be kept elsewhere; write env:NAME or file:PATH",
		"{plaintext: refuse}":          "encryption.plaintext: refuse needs keys; write encryption: {keys: [file:PATH]}",
		"{plaintext: maybe}":           `"maybe" is not known; write one of read, refuse`,
	} {
		yaml := "upstreams: [{name: u, url: http://127.0.0.1:1/mcp}]\nencryption: " + encryption + "\n"
		if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path, environ, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), strings.Repeat("ab", 32)) || strings.Contains(err.Error(), "c2hvcnQ") {
			t.Errorf("%s: got %v, want %s", encryption, err, want)
		}
	}
}
