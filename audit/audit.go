// Package audit writes down who did what: one JSON object a line, apart from
// the operational log, without arguments, results or anything that opens a task.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Event is one request, or the end of one task, and what became of it.
type Event struct {
	Time time.Time `json:"time"`
	// Kind is empty for a request.
	Kind Kind `json:"event,omitempty"`
	// Tenant and Subject are the caller; empty for one who was not let in.
	Tenant  string `json:"tenant,omitempty"`
	Subject string `json:"subject,omitempty"`
	// Identity is the kind of credential that vouched for the caller.
	Identity string `json:"identity,omitempty"`
	// Peer is the address that the connection came from.
	Peer     string `json:"peer,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	Method   string `json:"method,omitempty"`
	Tool     string `json:"tool,omitempty"`
	// Task is TaskHash of the task that was made, changed or read.
	Task string `json:"task,omitempty"`
	// Rule and Source are the policy decision that held: its rule, and where that
	// is written.
	Rule   string `json:"rule,omitempty"`
	Source string `json:"source,omitempty"`
	// Outcome is one of the constants.
	Outcome Outcome `json:"outcome"`
	Status  int     `json:"status,omitempty"` // of HTTP, of a request
	Code    int     `json:"code,omitempty"`   // of JSON-RPC, 0 for a result
	// Reason says why a caller was not let in.
	Reason string `json:"reason,omitempty"`
	// Omitted is how many events like this one were left out before it.
	Omitted int `json:"omitted,omitempty"`
}

// Kind is what an event tells of, beside requests.
type Kind string

// Kinds.
const (
	TaskEnded Kind = "task_ended" // the principal is the task's owner
	Strangers Kind = "strangers"  // requests of callers who are not known, Omitted of them
)

// Outcome is what became of a request.
type Outcome string

// Outcomes.
const (
	Answered  Outcome = "answered"       // with a result
	TaskMade  Outcome = "task"           // with a handle
	Asked     Outcome = "input_required" // with a question
	Failed    Outcome = "failed"         // with an error
	Denied    Outcome = "denied"         // the caller was not let in, or may not do this
	Abandoned Outcome = "abandoned"      // the client hung up first
	Completed Outcome = "completed"      // a task has ended with a result
	Cancelled Outcome = "cancelled"      // a task has ended as its owner wished
)

// TaskHash stands for a task id, which alone should not be written down: the
// first 16 hexadecimal digits of its SHA-256 sum. Ids are random, so the sum
// leads back to nobody's task, and whoever has an id can look for it.
func TaskHash(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}

// Log is where events go. A nil Log drops them.
type Log struct {
	path   string // "": not a file
	failed func(error)

	mu        sync.Mutex
	out       io.Writer
	strangers *rate.Limiter
	omitted   Event // stands for the strangers that were left out
}

// Whoever is not let in leaves no name, and costs a caller nothing: a flood of
// such requests must not fill the disk.
const (
	strangersPerSecond = 10
	strangersAtOnce    = 100
)

// New returns a Log that writes to out. failed gets what goes wrong later.
func New(out io.Writer, failed func(error)) *Log {
	return &Log{out: out, failed: failed, strangers: rate.NewLimiter(strangersPerSecond, strangersAtOnce)}
}

// Open returns a Log that appends to the file.
func Open(path string, failed func(error)) (*Log, error) {
	l := New(nil, failed)
	l.path = path
	if err := l.Reopen(); err != nil {
		return nil, err
	}
	return l, nil
}

// Reopen opens the file anew, after somebody has moved it away. Until the new
// one is open the old one is written to.
func (l *Log) Reopen() error {
	if l == nil || l.path == "" {
		return nil
	}
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	l.mu.Lock()
	old := l.out
	l.out = f
	l.mu.Unlock()
	return closeFile(old)
}

func closeFile(w io.Writer) error {
	if f, ok := w.(*os.File); ok && f != nil {
		return f.Close()
	}
	return nil
}

// Record writes an event in one piece. JSON leaves no control character as it is.
// Of events without a principal it writes so many a second, and then how many it
// has left out.
func (l *Log) Record(e Event) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Tenant == "" && !l.strangers.AllowN(e.Time, 1) {
		l.omitted.Time, l.omitted.Omitted = e.Time, l.omitted.Omitted+1
		return
	}
	l.writeOmitted()
	l.write(e)
}

func (l *Log) writeOmitted() {
	if n := l.omitted.Omitted; n > 0 {
		l.write(Event{Time: l.omitted.Time, Kind: Strangers, Outcome: Denied, Omitted: n})
		l.omitted = Event{}
	}
}

func (l *Log) write(e Event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.out.Write(append(line, '\n'))
	}
	if err != nil {
		l.failed(fmt.Errorf("audit log: %w", err))
	}
}

// Close writes what is left to say, and closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeOmitted()
	if l.path == "" {
		return nil
	}
	return closeFile(l.out)
}
