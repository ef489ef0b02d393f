package policy

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
)

// Editors and copies write in several steps: files are read once they have been
// left alone for settle, or after patience if they never are.
const (
	settle   = 100 * time.Millisecond
	patience = 2 * time.Second
)

// Run reloads whenever the files change, until ctx ends; its error is nil then.
// Being told of changes by the system is a hint that makes it fast: files are
// looked at every Interval in any case.
func (r *Reloader) Run(ctx context.Context) error {
	if len(r.files) == 0 {
		<-ctx.Done()
		return nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		r.opts.Log.Warn("policy files are not watched, only looked at from time to time", zap.Error(err), zap.Duration("interval", r.opts.Interval))
		w = noWatcher()
	} else {
		defer w.Close()
	}
	tick := time.NewTicker(r.opts.Interval)
	defer tick.Stop()
	r.follow(ctx, w, tick.C)
	return nil
}

// follow looks at the files whenever there is reason to, until ctx ends. They are
// watched before they are read, so that no change falls in between.
func (r *Reloader) follow(ctx context.Context, w *fsnotify.Watcher, tick <-chan time.Time) {
	for {
		r.watch(w)
		r.Reload()
		if r.wait(ctx, w, tick) != nil {
			return
		}
	}
}

// noWatcher has nil channels: nothing ever comes from it.
func noWatcher() *fsnotify.Watcher { return &fsnotify.Watcher{} }

// wait waits for a reason to look at the files. The error is that of ctx.
func (r *Reloader) wait(ctx context.Context, w *fsnotify.Watcher, tick <-chan time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-tick:
	case err := <-w.Errors:
		r.opts.Log.Warn("policy files: a change may have been missed", zap.Error(err))
	case <-w.Events:
		return quiet(ctx, w)
	}
	return nil
}

// quiet waits until no more events come.
func quiet(ctx context.Context, w *fsnotify.Watcher) error {
	enough := time.After(patience)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-enough:
			return nil
		case <-w.Events:
		case <-time.After(settle):
			return nil
		}
	}
}

// watch watches the directories that the files are in, since an editor puts a
// new file in the place of the old one, and a mounted ConfigMap a new directory.
// It is called again and again because directories come and go.
func (r *Reloader) watch(w *fsnotify.Watcher) {
	if w.Events == nil {
		return
	}
	for _, dir := range directories(r.files) {
		if err := w.Add(dir); err != nil {
			r.opts.Log.Debug("policy directory not watched", zap.Error(fmt.Errorf("%s: %w", dir, err)))
		}
	}
}

// directories lists the parents of the files, the files themselves where they
// are directories, and the same for what links among them point to.
func directories(files []string) []string {
	var out []string
	for _, f := range files {
		out = append(out, filepath.Dir(f))
		if real, err := filepath.EvalSymlinks(f); err == nil {
			out = append(out, filepath.Dir(real))
		}
		if isDir(f) {
			out = append(out, f)
		}
	}
	return out
}
