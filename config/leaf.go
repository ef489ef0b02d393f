package config

import (
	"fmt"
	"math"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// ByteSize is a number of bytes, written with its unit: 64KiB, 4MiB, 1GiB.
type ByteSize int64

// Units of ByteSize.
const (
	B   ByteSize = 1
	KiB          = 1024 * B
	MiB          = 1024 * KiB
	GiB          = 1024 * MiB
)

// byteUnits are tried in this order: "B" ends all of them.
func byteUnits() []struct {
	name string
	size ByteSize
} {
	return []struct {
		name string
		size ByteSize
	}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", B}}
}

// UnmarshalText reads a size; it wants a unit.
func (s *ByteSize) UnmarshalText(text []byte) error {
	t := string(text)
	for _, u := range byteUnits() {
		number, ok := strings.CutSuffix(t, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/int64(u.size) {
			break
		}
		*s = ByteSize(n) * u.size
		return nil
	}
	if n, err := strconv.ParseInt(t, 10, 64); err == nil {
		return fmt.Errorf("%q has no unit; write %s", t, ByteSize(n))
	}
	return fmt.Errorf("%q is not a size; write one such as 64KiB, 4MiB or 1GiB", t)
}

// String writes the size in the largest unit that divides it.
func (s ByteSize) String() string {
	for _, u := range byteUnits() {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return "0B"
}

// MarshalText writes what UnmarshalText reads.
func (s ByteSize) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Secret is a value that is never printed. It is written as a reference,
// env:NAME or file:PATH, or as the value itself.
type Secret struct {
	reference string // "" for a value that was written out
	value     string
}

// NewSecret is a secret with a known value.
func NewSecret(value string) Secret { return Secret{value: value} }

// UnmarshalText reads a secret; Load then looks up what it refers to.
func (s *Secret) UnmarshalText(text []byte) error {
	t := string(text)
	*s = Secret{value: t}
	if strings.HasPrefix(t, "env:") || strings.HasPrefix(t, "file:") {
		*s = Secret{reference: t}
	}
	return nil
}

// Value is the secret itself.
func (s Secret) Value() string { return s.value }

// IsReference tells a secret that is kept elsewhere from one written out.
func (s Secret) IsReference() bool { return s.reference != "" }

// String is the reference, or a placeholder.
func (s Secret) String() string {
	switch {
	case s.reference != "":
		return s.reference
	case s.value == "":
		return ""
	}
	return "(hidden)"
}

// GoString keeps %#v from printing the value.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// MarshalText writes what String returns.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// resolve looks up what the secret refers to. Line ends after it are not part
// of a secret in a file.
func (s *Secret) resolve(environ map[string]string) error {
	if name, ok := strings.CutPrefix(s.reference, "env:"); ok {
		if s.value, ok = environ[name]; !ok || s.value == "" {
			return fmt.Errorf("the environment variable %s is not set", name)
		}
	}
	if name, ok := strings.CutPrefix(s.reference, "file:"); ok {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if s.value = strings.TrimRight(string(b), "\r\n"); s.value == "" {
			return fmt.Errorf("the file %s is empty", name)
		}
	}
	return nil
}

// Store says where tasks are kept: "memory", a path, or a redis:// or rediss://
// URL.
type Store string

// StoreKind is the kind of a store.
type StoreKind string

// Kinds of store.
const (
	StoreMemory   StoreKind = "memory"
	StoreEmbedded StoreKind = "embedded"
	StoreRedis    StoreKind = "redis"
)

// Kind tells what kind of store it is.
func (s Store) Kind() StoreKind {
	switch {
	case s == "memory":
		return StoreMemory
	case strings.HasPrefix(string(s), "redis://"), strings.HasPrefix(string(s), "rediss://"):
		return StoreRedis
	}
	return StoreEmbedded
}

// String is the location without a password.
func (s Store) String() string {
	if s.Kind() != StoreRedis {
		return string(s)
	}
	u, err := url.Parse(string(s))
	if err != nil {
		return "(hidden)"
	}
	return u.Redacted()
}

// GoString keeps %#v from printing a password.
func (s Store) GoString() string { return strconv.Quote(s.String()) }

// MarshalText writes what String returns.
func (s Store) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
