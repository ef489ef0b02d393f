package taskroute

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"
)

const (
	// secretLength is that of crypto/rand.Text: 130 random bits in base32.
	secretLength = 26
	// timeLength is how many characters of an ordered id are its time: 45 bits,
	// which is enough for the next thousand years.
	timeLength = 9
)

// NewID returns an id that nobody can guess (SEP-2663, Security Considerations).
func NewID() string { return rand.Text() }

// NewOrderedID returns an id that sorts by when it was made, to the millisecond,
// and that nobody can guess who knows when that was: it has as many random bits as
// one of NewID. A backend that keeps documents in order of their ids then has new
// ones side by side.
func NewOrderedID(now time.Time) string { return timeText(now) + rand.Text() }

// sorted is base32 whose characters are those of rand.Text, in the order of bytes.
var sorted = base32.NewEncoding("234567ABCDEFGHIJKLMNOPQRSTUVWXYZ").WithPadding(base32.NoPadding)

func timeText(t time.Time) string {
	bits := binary.BigEndian.AppendUint64(nil, uint64(t.UnixMilli())<<(64-5*timeLength))
	return sorted.EncodeToString(bits)[:timeLength]
}

// ValidID tells whether id has the form of NewID or NewOrderedID.
func ValidID(id string) bool {
	if len(id) != secretLength && len(id) != timeLength+secretLength {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// newNonce names a write among the few that a document remembers: 65 random bits.
func newNonce() string { return rand.Text()[:13] }
