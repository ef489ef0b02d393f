package stories

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

var update = flag.Bool("update", false, "write down what happens now")

// deadline is how long a story waits for what must happen.
const deadline = 20 * time.Second

func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { tell(t, file) })
	}
}

// story is one that is being told.
type story struct {
	*place
	t     *testing.T
	names names
	reply chan mcptest.Reply // of the request that was sent last
	read  int                // of what the upstream has received
}

// tell goes through a file section by section: what a section says happens, or
// has to be what happened.
func tell(t *testing.T, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	limits := "{}"
	s := &story{t: t}
	for i := range a.Files {
		f := &a.Files[i]
		switch who, _, _ := strings.Cut(f.Name, " "); who {
		case "limits":
			limits = strings.TrimSpace(string(f.Data))
		case "gateway":
			s.place = build(t, f.Name, string(f.Data), limits)
		case "client":
			s.send(string(f.Data))
		case "answer":
			s.compare(f, func() string { return s.names.hide(shown(<-s.reply)) })
		case "upstream":
			s.upstream(f)
		case "redis":
			if strings.HasSuffix(f.Name, "killed") {
				s.redis.Kill(t)
			} else {
				s.redis.Restart(t)
			}
		default:
			t.Fatalf("%s: who is %q?", f.Name, who)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// upstream is what it has received since the last time, or its word to go on.
func (s *story) upstream(f *txtar.File) {
	switch {
	case strings.Contains(f.Name, "goes on"):
		s.script.goOn()
	default:
		want := strings.Count(string(f.Data), "\n")
		mcptest.Eventually(s.t, deadline, f.Name, func() bool { return len(s.received()) >= max(want, 1) })
		s.compare(f, func() string {
			list := s.received()
			s.read += len(list)
			return s.names.hide(strings.Join(list, "")) // each with its line end
		})
	}
}

// received are the messages that reached the upstream and were not yet told of,
// less those by which the gateway gets to know it.
func (s *story) received() []string {
	var list []string
	for _, r := range s.up.Requests("") {
		switch r.Message.Method {
		case "initialize", "notifications/initialized", "server/discover", "tools/list":
			continue
		}
		if r.Method == "POST" {
			list = append(list, string(r.Body)+"\n")
		}
	}
	return list[s.read:]
}

func (s *story) compare(f *txtar.File, got func() string) {
	s.t.Helper()
	happened := got()
	if *update {
		f.Data = []byte(happened)
	}
	if want := string(f.Data); happened != want {
		s.t.Fatalf("%s:\ngot\n%s\nwant\n%s", f.Name, happened, want)
	}
}

// send sends a request and waits for its answer, unless the request says for
// how many events only. With "until" it is repeated until the answer says that.
func (s *story) send(text string) {
	r := readRequest(s.t, s.names.restore(text))
	s.reply = make(chan mcptest.Reply, 1)
	heard := make(chan struct{}, 100)
	r.options = append(r.options, mcptest.OnNotification(func(wire.Message) { heard <- struct{}{} }))
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.reply <- s.repeat(r)
	}()
	for range r.events {
		<-heard
	}
	if r.events == 0 {
		<-done
	}
}

// repeat sends a request until the answer is the one that is waited for.
func (s *story) repeat(r request) mcptest.Reply {
	ctx, cancel := context.WithTimeout(s.t.Context(), deadline)
	defer cancel()
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for {
		got, err := s.client.Call(ctx, r.method, wire.Raw(r.params), r.options...)
		if err != nil {
			s.t.Errorf("%s: %v", r.method, err)
			return got
		}
		if strings.Contains(string(got.Body), r.until) {
			return got
		}
		<-pause.C
	}
}
