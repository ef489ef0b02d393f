package policy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// newReloader loads files; its log can be read.
func newReloader(t *testing.T, files ...string) (*Reloader, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	start := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	r, err := NewReloader(files, ReloaderOptions{Now: func() time.Time { return start }, Interval: time.Hour, Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	return r, logs
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// named is a policy that decides every call by a rule of this name.
func named(name string) string {
	return fmt.Sprintf("rules: [{name: %s, match: {tool: \"*\"}}]\n", name)
}

func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	writeFile(t, path, named("one"))
	r, logs := newReloader(t, path)
	first := r.Status()

	r.Reload() // nothing has changed
	if s := r.Status(); s.Reloads != 0 || s.Hash != first.Hash {
		t.Errorf("reloaded without a change: %+v", s)
	}

	writeFile(t, path, "rules: [{name: broken}]\n")
	r.Reload()
	r.Reload()
	s := r.Status()
	if r.Decide(Query{}).Rule != "one" || s.Hash != first.Hash || s.Failures != 2 || s.FailedAt.IsZero() || !strings.Contains(fmt.Sprint(s.Err), "p.yaml:1: error: rules[0]: match is missing") {
		t.Errorf("after a bad file: %+v", s)
	}
	if n := logs.FilterMessageSnippet("not reloaded").Len(); n != 1 {
		t.Errorf("the same error was logged %d times", n)
	}

	writeFile(t, path, named("two"))
	r.Reload()
	if s := r.Status(); r.Decide(Query{}).Rule != "two" || s.Reloads != 1 || s.Err != nil || s.Hash == first.Hash || s.Rules != 1 {
		t.Errorf("after a good file: %+v", s)
	}

	writeFile(t, path, "") // as an editor leaves it for a moment
	r.Reload()
	writeFile(t, path, named("two"))
	r.Reload()
	if s := r.Status(); s.Err != nil || s.Reloads != 1 || s.Failures != 3 {
		t.Errorf("after the file came back: %+v", s)
	}
}

// TestReloadOfAnUnseenHeader: the gateway says at once that a rule waits for a
// header which it is not given.
func TestReloadOfAnUnseenHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	writeFile(t, path, "rules: [{match: {when: headers.team == \"red\"}}]\n")
	o := ReloaderOptions{Now: time.Now, Interval: time.Hour, Log: zap.NewNop(), Sees: SeesOnly(nil)}
	if _, err := NewReloader([]string{path}, o); err == nil || !strings.Contains(err.Error(), `p.yaml:1: error: rules[0].match.when: no condition sees the header "team"`) {
		t.Errorf("without the header: %v", err)
	}
	o.Sees = SeesOnly([]string{"Team"})
	if r, err := NewReloader([]string{path}, o); err != nil || r.Decide(Query{Headers: map[string]string{"team": "red"}}).Source != path+":1" {
		t.Errorf("with it: %v", err)
	}
}

func TestReloaderRefusesABadStart(t *testing.T) {
	if _, err := NewReloader([]string{"testdata/bad/unknown-key.yaml"}, ReloaderOptions{Now: time.Now, Interval: time.Hour, Log: zap.NewNop()}); err == nil {
		t.Error("started")
	}
}

func TestConditionFailuresAreLoggedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	writeFile(t, path, "rules: [{name: r, match: {when: args.x}}]\n")
	r, logs := newReloader(t, path)
	for range 3 {
		r.Decide(Query{})
	}
	if n := logs.FilterMessageSnippet("cannot be evaluated").Len(); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if e := r.Set().EvalErrors(); len(e) != 1 || e[0].Count != 3 {
		t.Errorf("counted %+v", e)
	}
}

// running runs r until the test ends.
func running(t *testing.T, r *Reloader) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// eventually waits until r decides by the rule.
func eventually(t *testing.T, r *Reloader, rule string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); r.Decide(Query{}).Rule != rule; {
		if time.Now().After(deadline) {
			t.Fatalf("still decided by %s, not %s; %+v", r.Decide(Query{}).Rule, rule, r.Status())
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestWatchEditorRename: editors write a new file and rename it over the old.
func TestWatchEditorRename(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.yaml")
	writeFile(t, path, named("v0"))
	r, _ := newReloader(t, path)
	running(t, r)
	for i := range 3 {
		writeFile(t, filepath.Join(dir, ".p.yaml.swp"), named(fmt.Sprint("v", i+1)))
		if err := os.Rename(filepath.Join(dir, ".p.yaml.swp"), path); err != nil {
			t.Fatal(err)
		}
		eventually(t, r, fmt.Sprint("v", i+1))
	}
}

// TestWatchConfigMap: the kubelet writes a new directory and swaps the link
// ..data, through which the files are linked; then the old directory goes.
func TestWatchConfigMap(t *testing.T) {
	dir := t.TempDir()
	swap := func(version string) {
		real := filepath.Join(dir, ".."+version)
		if err := os.Mkdir(real, 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(real, "p.yaml"), named(version))
		old, _ := os.Readlink(filepath.Join(dir, "..data"))
		tmp := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(".."+version, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if old != "" {
			if err := os.RemoveAll(filepath.Join(dir, old)); err != nil {
				t.Fatal(err)
			}
		}
	}
	swap("v0")
	if err := os.Symlink("..data/p.yaml", filepath.Join(dir, "p.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, arg := range []string{filepath.Join(dir, "p.yaml"), dir} {
		r, _ := newReloader(t, arg)
		before := r.Decide(Query{}).Rule
		running(t, r)
		next := before + "x"
		swap(next)
		eventually(t, r, next)
	}
}

// TestWatchElsewhere: a link to a file in another directory.
func TestWatchElsewhere(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(elsewhere, "real.yaml"), named("one"))
	if err := os.Symlink(filepath.Join(elsewhere, "real.yaml"), filepath.Join(dir, "p.yaml")); err != nil {
		t.Fatal(err)
	}
	r, _ := newReloader(t, filepath.Join(dir, "p.yaml"))
	running(t, r)
	writeFile(t, filepath.Join(elsewhere, "real.yaml"), named("two"))
	eventually(t, r, "two")
}

// TestLookingFromTimeToTime: without a watcher a tick is the only reason to look.
func TestLookingFromTimeToTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	writeFile(t, path, named("one"))
	r, _ := newReloader(t, path)
	writeFile(t, path, named("two"))
	ctx, cancel := context.WithCancel(context.Background())
	tick, done := make(chan time.Time), make(chan struct{})
	go func() {
		r.follow(ctx, noWatcher(), tick)
		close(done)
	}()
	eventually(t, r, "two") // the first look
	writeFile(t, path, named("three"))
	tick <- time.Time{}
	eventually(t, r, "three")
	cancel()
	<-done
}

// TestSettled: the files are replaced between the reading of one and the next.
func TestSettled(t *testing.T) {
	reading := func(a, b string) []content { return []content{{"a.yaml", []byte(a)}, {"b.yaml", []byte(b)}} }
	readings := [][]content{reading("old", "new"), reading("new", "new"), reading("new", "new")}
	n := 0
	got, findings := settled(func() ([]content, Findings) { n++; return readings[n-1], nil })
	if hashOf(got) != hashOf(readings[2]) || findings != nil || n != 3 {
		t.Errorf("got %s after %d readings, %v", got, n, findings)
	}
	n = 0
	if _, findings := settled(func() ([]content, Findings) { n++; return reading("x", fmt.Sprint(n)), nil }); !findings.Failed() {
		t.Error("files that never hold still were loaded")
	}
}

// TestReloadNeverMixesSets: two files are replaced together again and again while
// calls are decided; each decision is of one version, and Explain agrees.
func TestReloadNeverMixesSets(t *testing.T) {
	dir := t.TempDir()
	version := func(i int) {
		real := filepath.Join(dir, fmt.Sprint("v", i))
		if err := os.Mkdir(real, 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(real, "a.yaml"), fmt.Sprintf("defaults: {pollInterval: %ds}\n", i))
		writeFile(t, filepath.Join(real, "b.yaml"), fmt.Sprintf("rules: [{name: v%d, match: {tool: \"*\"}, ttl: %ds}]\n", i, i+3600))
		tmp := filepath.Join(dir, "tmp")
		if err := os.Symlink(real, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, "now")); err != nil {
			t.Fatal(err)
		}
	}
	version(1)
	r, _ := newReloader(t, filepath.Join(dir, "now", "a.yaml"), filepath.Join(dir, "now", "b.yaml"))

	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { decideUntil(t, r, done) })
	}
	wg.Go(func() { // reloads while the files are being replaced
		for {
			select {
			case <-done:
				return
			default:
				r.Reload()
			}
		}
	})
	const last = 100
	for i := 2; i <= last; i++ {
		version(i)
	}
	close(done)
	wg.Wait()
	r.Reload()
	if s := r.Status(); s.Err != nil || r.Decide(Query{}).Rule != fmt.Sprint("v", last) {
		t.Errorf("decided by %s; %+v", r.Decide(Query{}).Rule, s)
	}
}

func decideUntil(t *testing.T, r *Reloader, done <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		default:
		}
		d := r.Decide(Query{Tool: fmt.Sprint("t", i%100)})
		if d.TTL-time.Hour != d.PollInterval || d.Rule != fmt.Sprint("v", d.PollInterval.Seconds()) {
			t.Errorf("a mixture: %+v", d)
			return
		}
	}
}
