package seal

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// Key is the secret that all others are derived from. It prints as its id.
type Key struct {
	secret [KeySize]byte
	id     [idSize]byte
}

const idSize = 8

// ParseKey reads 32 bytes, as 64 hexadecimal digits or as Base64 of either
// alphabet, padded or not. The error holds nothing of the text.
func ParseKey(text string) (Key, error) {
	unpadded := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	inHex, _ := hex.DecodeString(text)
	inBase64, _ := base64.RawStdEncoding.DecodeString(unpadded)
	for _, raw := range [][]byte{inHex, inBase64} {
		if len(raw) == KeySize {
			k := Key{secret: [KeySize]byte(raw)}
			k.id = [idSize]byte(k.derive("taskgate key id", idSize))
			return k, nil
		}
	}
	return Key{}, fmt.Errorf("is no key of %d bytes: want 64 hexadecimal digits, or 44 characters of Base64, and there are %d characters; make one with: openssl rand -base64 %d",
		KeySize, len(text), KeySize)
}

// ID names the key, and tells nothing of it.
func (k Key) ID() string { return hex.EncodeToString(k.id[:]) }

// Format prints the ID, whatever the verb.
func (k Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.ID()) }

// derive is HKDF-Expand (RFC 5869, section 2.3); a key is as random as the
// outcome of its first step.
func (k Key) derive(purpose string, size int) []byte {
	out, err := hkdf.Expand(sha256.New, k.secret[:], purpose, size)
	if err != nil { // only for sizes that no cipher has
		panic(err)
	}
	return out
}
