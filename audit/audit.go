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
)

// Event is one request and what became of it.
type Event struct {
	Time time.Time `json:"time"`
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
	Status  int     `json:"status"`         // of HTTP
	Code    int     `json:"code,omitempty"` // of JSON-RPC, 0 for a result
	// Reason says why a caller was not let in.
	Reason string `json:"reason,omitempty"`
}

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

	mu  sync.Mutex
	out io.Writer
}

// New returns a Log that writes to out. failed gets what goes wrong later.
func New(out io.Writer, failed func(error)) *Log { return &Log{out: out, failed: failed} }

// Open returns a Log that appends to the file.
func Open(path string, failed func(error)) (*Log, error) {
	l := &Log{path: path, failed: failed}
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
func (l *Log) Record(e Event) {
	if l == nil {
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		l.mu.Lock()
		_, err = l.out.Write(append(line, '\n'))
		l.mu.Unlock()
	}
	if err != nil {
		l.failed(fmt.Errorf("audit log: %w", err))
	}
}

// Close closes the file.
func (l *Log) Close() error {
	if l == nil || l.path == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return closeFile(l.out)
}
