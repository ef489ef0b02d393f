package seal

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// key is one of 32 equal bytes.
func key(t *testing.T, b byte) Key {
	t.Helper()
	k, err := ParseKey(hex.EncodeToString(bytes.Repeat([]byte{b}, KeySize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeysAreReadInEachForm(t *testing.T) {
	raw := bytes.Repeat([]byte{0xfb}, KeySize) // + and / in Base64
	want := key(t, 0xfb)
	for _, text := range []string{
		hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)),
		base64.StdEncoding.EncodeToString(raw), base64.RawStdEncoding.EncodeToString(raw),
		base64.URLEncoding.EncodeToString(raw), base64.RawURLEncoding.EncodeToString(raw),
	} {
		if got, err := ParseKey(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}

func TestBadKeysAreRefusedWithoutBeingShown(t *testing.T) {
	for _, text := range []string{
		"", "correct horse battery staple!", hex.EncodeToString(make([]byte, 16)), hex.EncodeToString(make([]byte, 33)),
		base64.StdEncoding.EncodeToString(make([]byte, 31)), base64.StdEncoding.EncodeToString(make([]byte, 33)), strings.Repeat("é", 22),
	} {
		_, err := ParseKey(text)
		if want := fmt.Sprintf("there are %d characters", len(text)); err == nil || !strings.Contains(err.Error(), want) || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestKeysArePrintedAsTheirID(t *testing.T) {
	k := key(t, 'k')
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		if got := fmt.Sprintf(verb, k); strings.Contains(got, "6b6b6b") || strings.Contains(got, "kkk") || strings.Contains(got, "107") {
			t.Errorf("%s prints %s", verb, got)
		}
	}
	if id := k.ID(); len(id) != 2*idSize || id == key(t, 'l').ID() {
		t.Errorf("id %q", id)
	}
}

func TestWhatIsSealedOpensWhereItBelongs(t *testing.T) {
	before, after := key(t, 1), key(t, 2)
	old := NewRing([]Key{before}, false)
	rotated := NewRing([]Key{after, before}, true)
	for _, data := range []string{"", "{}", strings.Repeat("marker ", 10_000)} {
		sealed := old.Seal([]byte(data), "task", "state", "ann")
		if bytes.Contains(sealed, []byte("marker")) {
			t.Fatal("it can be read")
		}
		for _, r := range []*Ring{old, rotated} {
			if got, err := r.Open(sealed, "task", "state", "ann"); err != nil || string(got) != data {
				t.Errorf("got %.20q, %v", got, err)
			}
		}
		if !old.IsCurrent(sealed) || rotated.IsCurrent(sealed) || !rotated.IsCurrent(rotated.Seal(nil, "task")) {
			t.Error("the wrong key is current")
		}
		if again := old.Seal([]byte(data), "task", "state", "ann"); bytes.Equal(again, sealed) {
			t.Error("the same data look the same")
		}
	}
}

func TestWhatWasMovedOrChangedDoesNotOpen(t *testing.T) {
	r := NewRing([]Key{key(t, 1)}, false)
	sealed := r.Seal([]byte("data"), "task", "state", "ann")
	for what, open := range map[string]func() ([]byte, error){
		"another name":    func() ([]byte, error) { return r.Open(sealed, "task2", "state", "ann") },
		"another part":    func() ([]byte, error) { return r.Open(sealed, "task", "input", "ann") },
		"another owner":   func() ([]byte, error) { return r.Open(sealed, "task", "state", "bob") },
		"less":            func() ([]byte, error) { return r.Open(sealed, "task", "state") },
		"other borders":   func() ([]byte, error) { return r.Open(sealed, "task", "stateann", "") },
		"only the mark":   func() ([]byte, error) { return r.Open(sealed[:1], "task", "state", "ann") },
		"only the head":   func() ([]byte, error) { return r.Open(sealed[:headSize], "task", "state", "ann") },
		"without its end": func() ([]byte, error) { return r.Open(sealed[:len(sealed)-1], "task", "state", "ann") },
		"with more at its end": func() ([]byte, error) {
			return r.Open(append(bytes.Clone(sealed), 0), "task", "state", "ann")
		},
	} {
		if got, err := open(); !errors.Is(err, ErrForged) {
			t.Errorf("%s: got %q, %v", what, got, err)
		}
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 0x80
		if got, err := r.Open(changed, "task", "state", "ann"); i > 0 && err == nil {
			t.Fatalf("byte %d was changed: got %q", i, got)
		}
	}
}

func TestUnknownKeysAreNamed(t *testing.T) {
	sealed := NewRing([]Key{key(t, 1)}, false).Seal([]byte("data"), "task")
	for _, r := range []*Ring{nil, NewRing([]Key{key(t, 2)}, false)} {
		_, err := r.Open(sealed, "task")
		if !errors.Is(err, ErrUnknownKey) || !strings.Contains(err.Error(), key(t, 1).ID()) {
			t.Errorf("got %v", err)
		}
	}
}

func TestPlainDataWhileKeysAreBeingIntroduced(t *testing.T) {
	plain := []byte(`{"a":1}`)
	for _, r := range []*Ring{nil, NewRing([]Key{key(t, 1)}, false)} {
		if got, err := r.Open(plain, "task"); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("got %q, %v", got, err)
		}
		if r.IsCurrent(plain) != (r == nil) {
			t.Error("plain data are current only without a key")
		}
	}
	if _, err := NewRing([]Key{key(t, 1)}, true).Open(plain, "task"); !errors.Is(err, ErrPlain) {
		t.Errorf("got %v", err)
	}
	var none *Ring
	if got := none.Seal(plain, "task"); !bytes.Equal(got, plain) {
		t.Errorf("sealed without a key: %q", got)
	}
}

func TestDigestsNeedTheKey(t *testing.T) {
	var none *Ring
	a, b := key(t, 1), key(t, 2)
	rotated := NewRing([]Key{b, a}, false).Digests("text")
	if len(rotated) != 2 || rotated[1] != NewRing([]Key{a}, false).Digests("text")[0] || rotated[0] == rotated[1] || none.Digests("text")[0] != "text" {
		t.Errorf("got %q", rotated)
	}
}

func BenchmarkSealAndOpen(b *testing.B) {
	k, err := ParseKey(strings.Repeat("0", 2*KeySize))
	if err != nil {
		b.Fatal(err)
	}
	r := NewRing([]Key{k}, true)
	data := make([]byte, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Open(r.Seal(data, "task", "state"), "task", "state"); err != nil {
			b.Fatal(err)
		}
	}
}
