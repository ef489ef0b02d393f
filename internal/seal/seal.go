// Package seal encrypts what is stored, by AES-256-GCM under keys that can be
// rotated: the first of a Ring seals, all of them open. What is sealed opens only
// where it was sealed for: it is bound to a name and to whatever else the caller
// says, so that bytes which were moved or changed are found out.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// Errors of Open.
var (
	// ErrUnknownKey: it was sealed by a key that is not on the ring.
	ErrUnknownKey = errors.New("it is encrypted with a key that is not among encryption.keys")
	// ErrForged: it was changed, or sealed for another place.
	ErrForged = errors.New("it was changed, or moved here from elsewhere, since it was encrypted")
	// ErrPlain: it is not sealed, and the ring insists.
	ErrPlain = errors.New("it is not encrypted, and encryption.plaintext is refuse")
)

// Ring seals and opens. It is safe for concurrent use. A nil Ring leaves what it
// seals as it is, and opens what is not sealed.
type Ring struct {
	keys        []Key
	refusePlain bool
}

// NewRing returns a Ring that seals with the first key. With refusePlain it does
// not open what is not sealed.
func NewRing(keys []Key, refusePlain bool) *Ring {
	return &Ring{keys: keys, refusePlain: refusePlain}
}

// Sealed data begin with a byte that no data of the gateway's own begin with,
// and the id of the key. Nonce, ciphertext and tag follow.
const (
	sealedMark = 0x01
	headSize   = 1 + idSize
)

// Seal encrypts data for the place that name and bound say.
func (r *Ring) Seal(data []byte, name string, bound ...string) []byte {
	if r == nil {
		return data
	}
	key := r.keys[0]
	head := append([]byte{sealedMark}, key.id[:]...)
	return key.cipher(name).Seal(head, nil, data, associated(head, name, bound))
}

// Open returns what Seal was given with the same name and bound. Errors:
// ErrUnknownKey, ErrForged, ErrPlain.
func (r *Ring) Open(data []byte, name string, bound ...string) ([]byte, error) {
	if !isSealed(data) {
		if r != nil && r.refusePlain {
			return nil, ErrPlain
		}
		return data, nil
	}
	if len(data) < headSize {
		return nil, ErrForged
	}
	head, body := data[:headSize], data[headSize:]
	key, err := r.find(head)
	if err != nil {
		return nil, err
	}
	plain, err := key.cipher(name).Open(nil, nil, body, associated(head, name, bound))
	if err != nil {
		return nil, ErrForged
	}
	return plain, nil
}

// IsCurrent tells whether Seal would use the same key.
func (r *Ring) IsCurrent(data []byte) bool {
	if r == nil {
		return !isSealed(data)
	}
	return isSealed(data) && bytes.HasPrefix(data[1:], r.keys[0].id[:])
}

// Digests stand for text where text itself must not be seen: one for each key,
// in their order. A nil Ring has no secret to make one with and returns text.
func (r *Ring) Digests(text string) []string {
	if r == nil {
		return []string{text}
	}
	out := make([]string, len(r.keys))
	for i, k := range r.keys {
		mac := hmac.New(sha256.New, k.derive("taskgate digest", KeySize))
		mac.Write([]byte(text))
		out[i] = hex.EncodeToString(mac.Sum(nil))
	}
	return out
}

func isSealed(data []byte) bool { return len(data) > 0 && data[0] == sealedMark }

func (r *Ring) find(head []byte) (Key, error) {
	id := head[1:]
	if r != nil {
		for _, k := range r.keys {
			if bytes.Equal(k.id[:], id) {
				return k, nil
			}
		}
	}
	return Key{}, fmt.Errorf("%w: key id %x", ErrUnknownKey, id)
}

// cipher is a name's own. Its nonces are random, of which a key of AES-GCM takes
// 2^32: too few for all records, plenty for one.
func (k Key) cipher(name string) cipher.AEAD {
	block, err := aes.NewCipher(k.derive("taskgate seal "+name, KeySize))
	if err != nil { // only for keys of another size
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return aead
}

// associated joins what is not encrypted but must be the same. Lengths keep
// neighbours apart.
func associated(head []byte, name string, bound []string) []byte {
	out := bytes.Clone(head)
	for _, s := range append([]string{name}, bound...) {
		out = binary.AppendUvarint(out, uint64(len(s)))
		out = append(out, s...)
	}
	return out
}
