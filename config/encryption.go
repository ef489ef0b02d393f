package config

import "taskgate/internal/seal"

// Encryption is how the store's content is encrypted.
type Encryption struct {
	// Keys have 32 bytes each. The first encrypts, all of them decrypt; empty:
	// tasks are stored as they are.
	Keys []Secret `yaml:"keys" env:"KEYS"`
	// Plaintext says what becomes of tasks that were stored without encryption.
	Plaintext Plaintext `yaml:"plaintext" env:"PLAINTEXT"`
}

// Plaintext says what becomes of what is not encrypted though it should be.
type Plaintext string

// What can be done.
const (
	PlaintextRead   Plaintext = "read"   // while keys are being introduced
	PlaintextRefuse Plaintext = "refuse" // so that nobody can put it there
)

// Values lists what can be done.
func (Plaintext) Values() []string { return []string{string(PlaintextRead), string(PlaintextRefuse)} }

func (v *validator) encryption(e Encryption) {
	v.enum("encryption.plaintext", string(e.Plaintext), e.Plaintext.Values())
	if len(e.Keys) == 0 && e.Plaintext == PlaintextRefuse {
		v.problem("encryption.plaintext", "refuse needs keys; write encryption: {keys: [file:PATH]}")
	}
	seen := map[string]string{}
	for i, s := range e.Keys {
		at := item("encryption.keys", i)
		v.secretReference(at, s)
		if s.Value() == "" { // it could not be looked up, which has been said
			continue
		}
		key, err := seal.ParseKey(s.Value())
		if err != nil {
			v.problem(at, "%v", err)
			continue
		}
		v.unique(seen, at, "key", key.ID())
	}
}
