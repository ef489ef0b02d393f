package policy

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Reloader keeps the set of some policy files current. A set that is wrong never
// replaces one that is right; calls see the old set or the new one, whole.
type Reloader struct {
	files []string
	opts  ReloaderOptions
	set   atomic.Pointer[Set]

	mu     sync.Mutex // held while reloading
	status Status
}

// ReloaderOptions are what a Reloader needs from outside.
type ReloaderOptions struct {
	Now func() time.Time
	// Interval is how often Run looks at the files although nothing was noticed.
	Interval time.Duration
	Sees     Sees // may be nil
	Log      *zap.Logger
}

// Status says what is loaded and how the last attempt went.
type Status struct {
	Hash      string    // names the content that holds
	Rules     int       // how many it has
	Warnings  Findings  // about what holds
	ChangedAt time.Time // when it was loaded
	Reloads   int       // how often the content was replaced since the start
	// Err is why the files that are there now do not hold; nil when they do.
	Err      error
	FailedAt time.Time // of the last failure; zero: never
	Failures int       // how many there were
}

// NewReloader loads the files. Its error is that of Load.
func NewReloader(files []string, opts ReloaderOptions) (*Reloader, error) {
	r := &Reloader{files: files, opts: opts}
	contents, findings := settled(r.read)
	set, err := finish(contents, findings, opts.Sees)
	if err != nil {
		return nil, err
	}
	r.publish(set)
	return r, nil
}

// Set is what holds now.
func (r *Reloader) Set() *Set { return r.set.Load() }

// Decide decides by what holds now.
func (r *Reloader) Decide(q Query) Decision { return r.Set().Decide(q) }

// OffersJobs is that of what holds now.
func (r *Reloader) OffersJobs(upstream string) bool { return r.Set().OffersJobs(upstream) }

// MakesJobs is that of what holds now.
func (r *Reloader) MakesJobs(upstream, tool string) bool { return r.Set().MakesJobs(upstream, tool) }

// Status says what is loaded and how the last attempt went.
func (r *Reloader) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Reload reads the files and, if they have changed and are right, puts them in
// the place of what held so far. What is wrong is logged and found in Status.
func (r *Reloader) Reload() {
	r.mu.Lock()
	defer r.mu.Unlock()
	contents, findings := settled(r.read)
	if len(findings) == 0 && hashOf(contents) == r.status.Hash { // the files are, maybe again, what holds
		r.status.Err = nil
		return
	}
	set, err := finish(contents, findings, r.opts.Sees)
	if err != nil {
		r.fail(err)
		return
	}
	r.status.Reloads++
	r.publish(set)
	r.opts.Log.Info("policy reloaded", zap.String("hash", set.Hash()), zap.Int("rules", len(set.rules)))
}

// fail notes an error. The same one again is not logged again.
func (r *Reloader) fail(err error) {
	if r.status.Err == nil || r.status.Err.Error() != err.Error() {
		r.opts.Log.Error("policy not reloaded; the old one holds", zap.String("hash", r.status.Hash), zap.Error(err))
	}
	r.status.Err = err
	r.status.FailedAt = r.opts.Now()
	r.status.Failures++
}

func (r *Reloader) publish(set *Set) {
	set.onEvalError = r.logEvalError
	r.status.Hash, r.status.Rules, r.status.Warnings = set.Hash(), len(set.rules), set.Warnings()
	r.status.ChangedAt, r.status.Err = r.opts.Now(), nil
	for _, w := range set.Warnings() {
		r.opts.Log.Warn("policy: " + w.String())
	}
	r.set.Store(set)
}

func (r *Reloader) logEvalError(e EvalError) {
	r.opts.Log.Warn("policy condition cannot be evaluated: its rule does not match; further failures are only counted",
		zap.String("rule", e.Rule), zap.String("source", e.Source), zap.String("failure", e.First))
}

func (r *Reloader) read() ([]content, Findings) { return readAll(r.files) }

// maxReads bounds how often files are read until they hold still.
const maxReads = 10

// settled reads until two readings in a row agree: else one could see some files
// before and others after they were replaced together.
func settled(read func() ([]content, Findings)) ([]content, Findings) {
	contents, _ := read()
	for range maxReads {
		hash := hashOf(contents)
		var findings Findings
		if contents, findings = read(); hashOf(contents) == hash {
			return contents, findings
		}
	}
	return nil, Findings{{Error, "policy", 0, "the files keep changing while they are read"}}
}
