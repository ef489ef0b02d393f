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
	heard chan wire.Message  // notifications that came for it and were not yet told of
	told  int                // how many were
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
		case "another":
			s.start(t)
		case "gateway's":
			s.gateway.Stop(t)
		case "client":
			s.clients(f)
		case "answer":
			s.compare(f, func() string { return s.names.hide(shown(<-s.reply, s.told)) })
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

// clients is what the client sends, or what has come so far.
func (s *story) clients(f *txtar.File) {
	if !strings.Contains(f.Name, "hears") {
		s.send(string(f.Data))
		return
	}
	s.compare(f, func() string {
		var b strings.Builder
		for range max(strings.Count(string(f.Data), "\n"), 1) {
			b.Write(s.next().Bytes())
			b.WriteByte('\n')
			s.told++
		}
		return s.names.hide(b.String())
	})
}

// next waits for a notification.
func (s *story) next() wire.Message {
	select {
	case m := <-s.heard:
		return m
	case <-time.After(deadline):
		s.t.Fatalf("after %d notifications nothing more was heard", s.told)
		return wire.Message{}
	}
}

// upstream is what it has received since the last time, or what it does.
func (s *story) upstream(f *txtar.File) {
	switch {
	case strings.Contains(f.Name, "goes on"):
		s.script.goOn()
	case strings.Contains(f.Name, "breaks off"):
		s.up.CutStreams()
	case strings.Contains(f.Name, "says"):
		s.says(f)
	default:
		want := strings.Count(string(f.Data), "\n")
		mcptest.Eventually(s.t, deadline, f.Name, func() bool { return len(s.received(f.Name)) >= max(want, 1) })
		s.compare(f, func() string {
			list := s.received(f.Name)
			s.read += len(list)
			return s.names.hide(strings.Join(list, "")) // each with its line end
		})
	}
}

// says sends messages of the upstream's own to those who listen to it.
func (s *story) says(f *txtar.File) {
	mcptest.Eventually(s.t, deadline, "the gateway listens", func() bool { return s.up.Listening() > 0 })
	for line := range strings.Lines(string(f.Data)) {
		m, err := wire.Decode([]byte(line))
		if err != nil {
			s.t.Fatalf("%s: %v", f.Name, err)
		}
		s.up.Broadcast(m)
	}
}

// received are the requests that reached the upstream and were not yet told of,
// less those by which the gateway gets to know it, and less the polls but for the
// first.
func (s *story) received(heading string) []string {
	var list []string
	polled := false
	for _, r := range s.up.Requests("") {
		switch r.Message.Method {
		case "initialize", "notifications/initialized", "server/discover", "tools/list":
			continue
		case "tasks/get":
			if polled {
				continue
			}
			polled = true
		}
		switch {
		case r.Method == "POST" && strings.Contains(heading, wire.HeaderName):
			list = append(list, wire.HeaderName+": "+r.Header.Get(wire.HeaderName)+", "+string(r.Body)+"\n")
		case r.Method == "POST":
			list = append(list, string(r.Body)+"\n")
		case r.Method == "GET" && r.Header.Get(wire.HeaderLastEvent) != "":
			list = append(list, "GET with Last-Event-ID: "+r.Header.Get(wire.HeaderLastEvent)+"\n")
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

// send sends a request and waits for its answer, unless the request says that
// the story goes on meanwhile. With "until" it is repeated until the answer says that.
func (s *story) send(text string) {
	r := readRequest(s.t, s.names.restore(text))
	s.reply = make(chan mcptest.Reply, 1)
	s.heard, s.told = make(chan wire.Message, 100), 0
	heard := s.heard
	r.options = append(r.options, mcptest.OnNotification(func(m wire.Message) { heard <- m }))
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.reply <- s.repeat(r)
	}()
	if !r.goesOn {
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
			s.t.Errorf("%s: %v; it has heard %q", r.method, err, got.Body)
			return got
		}
		if strings.Contains(string(got.Body), r.until) {
			return got
		}
		<-pause.C
	}
}
