// Package livefile follows files. What was made of them is made anew when they
// change; when that fails, the last good value stays.
package livefile

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// File is what was made of one or more files.
type File[T any] struct {
	paths []string
	parse func(contents [][]byte) (T, error)
	value atomic.Pointer[T]

	mu   sync.Mutex        // one reload at a time
	seen [sha256.Size]byte // content of the last attempt, good or bad
}

// Open reads the files. parse gets their contents in the order of paths and
// makes the value of them; it must not keep what it was given.
func Open[T any](parse func(contents [][]byte) (T, error), paths ...string) (*File[T], error) {
	f := &File[T]{paths: paths, parse: parse}
	if _, err := f.Reload(); err != nil {
		return nil, err
	}
	return f, nil
}

// Get is the value as it was last made.
func (f *File[T]) Get() T { return *f.value.Load() }

// Reload looks at the files now. changed is false when they are as they were at
// the last attempt, or when they are of no use; in the latter case there is an
// error, once for each such content.
func (f *File[T]) Reload() (changed bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	contents, err := f.read()
	if err != nil {
		return false, err
	}
	sum := sumOf(contents)
	if sum == f.seen {
		return false, nil
	}
	f.seen = sum
	v, err := f.parse(contents)
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.paths[0], err)
	}
	f.value.Store(&v)
	return true, nil
}

func (f *File[T]) read() ([][]byte, error) {
	contents := make([][]byte, len(f.paths))
	for i, path := range f.paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		contents[i] = b
	}
	return contents, nil
}

// sumOf tells contents apart: the sum of each one's own sum.
func sumOf(contents [][]byte) [sha256.Size]byte {
	var all []byte
	for _, c := range contents {
		sum := sha256.Sum256(c)
		all = append(all, sum[:]...)
	}
	return sha256.Sum256(all)
}

// Run looks at the files every so often until ctx ends, and reports each change
// (a nil error) and each failure. It looks at the content and not at events or
// times, because mounted secrets are replaced by renaming a directory above.
func (f *File[T]) Run(ctx context.Context, every time.Duration, report func(error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.runOnce(report)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *File[T]) runOnce(report func(error)) {
	if changed, err := f.Reload(); changed || err != nil {
		report(err)
	}
}
