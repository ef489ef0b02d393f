package wire

import (
	"bytes"
	"errors"
	"io"
)

// atOnce is how much room is made for bytes that were only announced.
const atOnce = 64 << 10

// ReadAll reads to the end of a body of which so many bytes were announced; -1:
// it is not known how many come. Once much of it has come the announcement is
// believed, so that a large body is not copied from one buffer into the next.
func ReadAll(r io.Reader, announced int64) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, min(max(announced, 0), atOnce)+bytes.MinRead))
	if announced > atOnce {
		if _, err := io.CopyN(b, r, atOnce); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return b.Bytes(), err
		}
		b.Grow(int(announced) - atOnce + bytes.MinRead)
	}
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}
