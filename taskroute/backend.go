package taskroute

import (
	"context"
	"errors"
	"time"
)

// Errors of a Backend. Any other error means that the outcome is unknown.
var (
	// ErrNotFound: there is no such document.
	ErrNotFound = errors.New("task not found")
	// ErrConflict: the stored revision is not the one the caller has read.
	ErrConflict = errors.New("task was changed by somebody else")
	// ErrExists: a document of that id is there and is not the same write.
	ErrExists = errors.New("task id already exists")
	// ErrFull: the backend takes no new documents; the old ones may be changed.
	ErrFull = errors.New("store takes no new tasks")
	// ErrCursor: a cursor that no page of this kind has ended with.
	ErrCursor = errors.New("cursor of another list, or none")
)

// Part numbers the separately stored parts of a document.
type Part int

// The parts of a document, in the order of Doc.Parts.
const (
	PartState Part = iota
	PartInput
	PartOutcome
	PartRequest
	NumParts
)

type partSet uint8

const (
	partState   partSet = 1 << PartState
	partInput   partSet = 1 << PartInput
	partOutcome partSet = 1 << PartOutcome
	partRequest partSet = 1 << PartRequest
	allParts    partSet = 1<<NumParts - 1
)

// NonceMemory is how many of a document's latest writes a Backend knows again
// by their nonce. A writer that lost its reply asks again within seconds, so
// few writes of others can have come between.
const NonceMemory = 8

// Doc is a record as a Backend sees it: opaque parts and what it takes to find
// it again. Get fills in ID, Revision and the wanted Parts; what follows them is
// written, not read back.
type Doc struct {
	ID       string
	Revision uint64           // ignored by Create and Replace
	Parts    [NumParts][]byte // nil: absent; in Replace: unchanged

	// Open: not terminal. Holder: who runs it; "" with Open is up for grabs
	// once it is Runnable.
	Open     bool
	Runnable bool // status working: needs a holder
	Holder   string
	Owner    string // one string per owner, for what it has in all; "": nobody's
	// Limit is what the owner may have with this document. Create alone looks at it.
	Limit Usage
	// ExpiresAt is when the document goes and leaves a tombstone (its Owner)
	// until ForgetAt; no tombstone when that is not later. Both zero: never. By
	// the backend's Now, as garbage collection only: Store checks expiry on its own.
	ExpiresAt time.Time
	ForgetAt  time.Time
	// Tell names a holder, "" for none, that did not make this Replace and is to
	// hear of it by its heartbeats.
	Tell string
	// Awaited: others may wait for the document to be created, so Create is hinted
	// as every Replace is.
	Awaited bool
}

// Size is how many bytes the parts have.
func (d Doc) Size() int64 {
	n := 0
	for _, part := range d.Parts {
		n += len(part)
	}
	return int64(n)
}

// Orphan names an open document and the dead holder it was found with, "" for
// one that waits for a holder. Who takes it over must find the same holder.
type Orphan struct {
	ID     string
	Holder string
}

// Backend keeps documents. Its contract, which storetest checks:
//
//   - Create and Replace are durable when they return nil: the write survives a
//     crash of this process (and of the machine, as far as the backend's own
//     settings promise), and every replica's next Get sees it.
//   - Replace is a compare-and-swap: of all that read the same revision, at most
//     one succeeds. The new revision is prev+1.
//   - Both may be called again with the same arguments after an error that left
//     the outcome unknown; a write that had landed is then reported as done,
//     never applied twice. nonce names the write for that, and is known again
//     until NonceMemory further writes have come.
//   - What an owner has counts its documents until they expire, and up to an hour
//     longer. It is exact where the backend is one server or one process; in a
//     Redis Cluster a writer that dies may leave a document counted that never was,
//     or bytes not counted, until the document expires.
//   - All methods are safe for concurrent use and honour ctx. What is passed in
//     may be changed afterwards, and so may what is returned.
type Backend interface {
	// NewID is an id for a document to be, such that the backend has least to do
	// with it: that of NewID or of NewOrderedID.
	NewID() string
	// Create stores a new document at revision 1. Errors: ErrExists, ErrFull,
	// *OverLimitError.
	Create(ctx context.Context, d Doc, nonce string) error
	// Get returns the document with the wanted parts, in one round trip.
	// ErrNotFound comes with the tombstone's owner when the document has
	// expired and is not forgotten yet: Doc.Owner is set then. ErrUnreadable: what
	// is there is none of the backend's own.
	Get(ctx context.Context, id string, parts ...Part) (Doc, error)
	// Revisions tells, in one round trip, at which revision each document is; 0: it
	// is not there, or none of the backend's own.
	Revisions(ctx context.Context, ids []string) ([]uint64, error)
	// Replace writes the parts that are not nil, and the index fields, over
	// revision prev. Errors: ErrNotFound, ErrConflict.
	Replace(ctx context.Context, prev uint64, d Doc, nonce string) error

	// Orphans pages through open documents whose holder is no longer alive, or
	// that are Runnable without a holder for at least a heartbeat's lifetime.
	// A holder that never was heard of is not alive. A cursor of "" starts, and
	// is returned at the end; a page holds about limit ids, or none at all. It is
	// a hint: the caller re-checks under Replace.
	Orphans(ctx context.Context, cursor string, limit int) (orphans []Orphan, next string, err error)
	// List pages through the ids of all documents: one that is there all the time
	// comes at least once. Cursor and limit are as in Orphans.
	List(ctx context.Context, cursor string, limit int) (ids []string, next string, err error)
	// Heartbeat says that holder is alive for lease from now, by the backend's
	// clock. It fails with ErrConflict when the lease had lapsed, or the holder
	// was retired, before. It returns the ids of documents that holder was to be
	// told of, some of them more than once.
	Heartbeat(ctx context.Context, holder string, lease time.Duration) (changed []string, err error)
	// Retire says that holder is gone; its documents are orphans at once.
	Retire(ctx context.Context, holder string) error
	// Usage is what owner has.
	Usage(ctx context.Context, owner string) (Usage, error)
	// Owned pages through the ids of owner's documents, like List; one that ends
	// meanwhile may come twice, and one that has expired may still come. ErrCursor:
	// no page can have ended with the cursor.
	Owned(ctx context.Context, owner, cursor string, limit int) (ids []string, next string, err error)

	// Hints calls f with the ids of documents that another process has changed,
	// until ctx ends, and returns its error. Some may be lost (contract 10); ""
	// means that some were.
	Hints(ctx context.Context, f func(id string)) error
	// Collect removes what has expired; backends that expire by themselves do
	// nothing. It returns how many documents went.
	Collect(ctx context.Context, now time.Time) (int, error)
	// Now is the time by the clock that all replicas share, so that one whose own
	// is wrong neither ends a record early nor keeps it long.
	Now() time.Time
	// Ping tells whether the backend can be reached.
	Ping(ctx context.Context) error
	Close() error
}
