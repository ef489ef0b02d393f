package wire

import (
	"io"
	"slices"
	"sync"
)

const (
	// atOnce is how much room is made for bytes that were only announced.
	atOnce = 64 << 10
	// unannounced is how much is made where nothing was.
	unannounced = 512
)

// Bodies reads bodies. Where the length of one is not known before its end, the
// room that it comes into is used again, and what it is copied to is as large as it
// is. The zero Bodies is ready.
type Bodies struct {
	rooms sync.Pool // of *[atOnce]byte
}

// ReadAll reads to the end of a body of which so many bytes were announced; -1:
// it is not known how many come.
func (b *Bodies) ReadAll(r io.Reader, announced int64) ([]byte, error) {
	body, err := []byte(nil), error(nil)
	if announced < 0 {
		body, err = b.gather(r)
	} else {
		body, err = readAnnounced(r, announced)
	}
	if err == io.EOF { // not what wraps it: there something broke off
		err = nil
	}
	return body, err
}

// readAnnounced believes the announcement once much of the body has come, so that a
// large one is not copied from one room into the next.
func readAnnounced(r io.Reader, announced int64) (body []byte, err error) {
	body = make([]byte, 0, min(announced, atOnce)+1) // one more, to see the end
	for err == nil {
		if has := len(body); has == cap(body) {
			body = slices.Grow(body, max(int(announced)-has, has)+1)
		}
		var n int
		n, err = r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
	}
	return body, err
}

func (b *Bodies) gather(r io.Reader) ([]byte, error) {
	first := make([]byte, unannounced)
	n, err := fill(r, first)
	all := Pieces{first[:n]}
	for err == nil {
		room, ok := b.rooms.Get().(*[atOnce]byte)
		if !ok {
			room = new([atOnce]byte)
		}
		defer b.rooms.Put(room)
		n, err = fill(r, room[:])
		all = append(all, room[:n])
	}
	return all.Bytes(), err
}

// fill reads until room is full, or no more can be read.
func fill(r io.Reader, room []byte) (n int, err error) {
	for n < len(room) && err == nil {
		var more int
		more, err = r.Read(room[n:])
		n += more
	}
	return n, err
}
