package legacyfront

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"taskgate/taskroute"
)

// sealer makes session ids and reads them. Its key is made once, by whichever
// replica needs it first, and kept in the store for all of them.
type sealer struct {
	store *taskroute.Store

	mu   sync.Mutex
	aead cipher.AEAD // nil: the key was not read yet
}

const (
	keyNote   = "session-key"
	keyLength = 32 // bytes: AES-256
)

// key returns the cipher. The error is that of the store.
func (s *sealer) key(ctx context.Context) (cipher.AEAD, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.aead != nil {
		return s.aead, nil
	}
	text, err := s.store.ChangeNote(ctx, keyNote, 0, firstKey)
	if err != nil {
		return nil, fmt.Errorf("key of session ids: %w", err)
	}
	key, err := hex.DecodeString(string(text))
	if err != nil {
		return nil, fmt.Errorf("key of session ids: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("key of session ids: %w", err)
	}
	s.aead, err = cipher.NewGCMWithRandomNonce(block)
	return s.aead, err
}

// firstKey is the key that is there, or a new one.
func firstKey(old []byte) ([]byte, error) {
	if old != nil {
		return old, nil
	}
	key := make([]byte, keyLength)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	return hex.AppendEncode(nil, key), nil
}

// seal writes a as a session id that is good at place only. It is visible ASCII
// (transports, Session Management).
func (s *sealer) seal(ctx context.Context, a agreed, place string) (string, error) {
	aead, err := s.key(ctx)
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("session: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, plain, []byte(place))), nil
}

// open reads a session id into a. known is false for what seal did not make for
// this place; the error is that of the store.
func (s *sealer) open(ctx context.Context, id, place string, a *agreed) (known bool, err error) {
	aead, err := s.key(ctx)
	if err != nil {
		return false, err
	}
	sealed, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil {
		return false, nil
	}
	plain, err := aead.Open(nil, nil, sealed, []byte(place))
	if err != nil {
		return false, nil
	}
	return json.Unmarshal(plain, a) == nil, nil
}
