package redisstore

import (
	"encoding/binary"
	"fmt"

	"taskgate/taskroute"
)

// maxInside is how large a part may be, in bytes, that is kept in the record: it is read
// with each poll, and written with each change.
const maxInside = 4 << 10

// What record.lua says of a stored document.
const (
	numberSize = 4
	headSize   = numberSize * (4 + int(taskroute.NumParts))
	absent     = 1<<32 - 1
	apart      = 1 << 31
)

// record is a stored document.
type record struct {
	revision uint64
	index    string
	parts    [taskroute.NumParts][]byte // nil: absent, or apart
	apart    [taskroute.NumParts]bool
}

// newRecord is that of a document that was not there.
func newRecord(d taskroute.Doc, index, nonce string) []byte {
	expires := fmt.Sprint(millis(d.ExpiresAt))
	text := make([]byte, 0, headSize+len(expires)+len(nonce)+len(index)+int(min(d.Size(), maxInside*int64(taskroute.NumParts))))
	for _, n := range []int{1, len(expires), len(nonce), len(index)} {
		text = binary.BigEndian.AppendUint32(text, uint32(n))
	}
	for _, part := range d.Parts {
		text = binary.BigEndian.AppendUint32(text, sizeOf(part))
	}
	text = append(append(append(text, expires...), nonce...), index...)
	for _, part := range d.Parts {
		if !isApart(part) {
			text = append(text, part...)
		}
	}
	return text
}

func isApart(part []byte) bool { return len(part) > maxInside }

func sizeOf(part []byte) uint32 {
	switch {
	case part == nil:
		return absent
	case isApart(part):
		return apart + uint32(len(part))
	}
	return uint32(len(part))
}

// placed is the name of a part for replace.lua, with its place.
func placed(p taskroute.Part, part []byte) string {
	if isApart(part) {
		return "+" + parts[p]
	}
	return parts[p]
}

// parseRecord reads one. Errors: ErrUnreadable.
func parseRecord(text string) (record, error) {
	if len(text) < headSize {
		return record{}, fmt.Errorf("%w: it has %d bytes", taskroute.ErrUnreadable, len(text))
	}
	r := record{revision: uint64(number(text))}
	at := uint64(headSize)
	for i := 1; i < 4+int(taskroute.NumParts); i++ {
		size := number(text[i*numberSize:])
		p := i - 4
		if p >= 0 && size >= apart {
			r.apart[p] = size != absent
			continue
		}
		end := at + uint64(size)
		if end > uint64(len(text)) {
			return record{}, fmt.Errorf("%w: it has %d bytes, and %d or more should be there", taskroute.ErrUnreadable, len(text), end)
		}
		switch {
		case p >= 0:
			r.parts[p] = []byte(text[at:end])
		case p == -1:
			r.index = text[at:end]
		}
		at = end
	}
	if at != uint64(len(text)) {
		return record{}, fmt.Errorf("%w: it has %d bytes, and %d should be there", taskroute.ErrUnreadable, len(text), at)
	}
	return r, nil
}

// number is the first of text.
func number(text string) uint32 {
	return uint32(text[0])<<24 | uint32(text[1])<<16 | uint32(text[2])<<8 | uint32(text[3])
}
