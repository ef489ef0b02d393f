package redisstore

import (
	"fmt"
	"strconv"
	"strings"

	"taskgate/taskroute"
)

// maxInside is how large a part may be, in bytes, that is kept in the record: it is read
// with each poll, and written with each change.
const maxInside = 4 << 10

// record is what record.lua says, and there in full.
type record struct {
	revision uint64
	index    string
	parts    [taskroute.NumParts][]byte // nil: absent, or apart
	apart    [taskroute.NumParts]bool
}

// newRecord is that of a document that was not there, and the parts that are to have
// keys of their own.
func newRecord(d taskroute.Doc, index, nonce string) (text []byte, apart []taskroute.Part) {
	text = fmt.Appendf(make([]byte, 0, d.Size()+200), "1 %d %s %d", millis(d.ExpiresAt), nonce, len(index))
	for p, part := range d.Parts {
		switch {
		case part == nil:
			text = append(text, " -"...)
		case len(part) > maxInside:
			text = fmt.Appendf(text, " +%d", len(part))
			apart = append(apart, taskroute.Part(p))
		default:
			text = fmt.Appendf(text, " %d", len(part))
		}
	}
	text = append(append(text, '\n'), index...)
	for _, part := range d.Parts {
		if len(part) <= maxInside {
			text = append(text, part...)
		}
	}
	return text, apart
}

// parseRecord reads one. Errors: ErrUnreadable.
func parseRecord(text string) (record, error) {
	head, body, _ := strings.Cut(text, "\n")
	fields := strings.Fields(head)
	var r record
	var err error
	if len(fields) != 4+int(taskroute.NumParts) {
		return record{}, fmt.Errorf("%w: its head is %.100q", taskroute.ErrUnreadable, head)
	}
	if r.revision, err = strconv.ParseUint(fields[0], 10, 64); err != nil {
		return record{}, fmt.Errorf("%w: its revision: %w", taskroute.ErrUnreadable, err)
	}
	if r.index, body, err = cutSized(body, fields[3]); err != nil {
		return record{}, err
	}
	for p, size := range fields[4:] {
		if size == "-" {
			continue
		}
		if r.apart[p] = size[0] == '+'; r.apart[p] {
			continue
		}
		var part string
		if part, body, err = cutSized(body, size); err != nil {
			return record{}, err
		}
		r.parts[p] = []byte(part)
	}
	if body != "" {
		return record{}, fmt.Errorf("%w: it has %d bytes more than its head says", taskroute.ErrUnreadable, len(body))
	}
	return r, nil
}

// cutSized takes the first bytes off; size says how many.
func cutSized(body, size string) (first, rest string, err error) {
	n, err := strconv.ParseUint(size, 10, 31)
	if err != nil || n > uint64(len(body)) {
		return "", "", fmt.Errorf("%w: it has %d bytes where %q should be", taskroute.ErrUnreadable, len(body), size)
	}
	return body[:n], body[n:], nil
}
