package load

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"taskgate/bench/rig"
)

//go:embed wrk.lua
var script []byte

// Wrk sends requests with wrk, round and round, over keep-alive connections.
type Wrk struct {
	Dir      string // for its files
	Server   *rig.Process
	Requests []*http.Request
	Conns    int
}

// tolerated: one request in so many may fail, as when a proxy closes a connection
// while it is written to. More of them mean that something else was measured.
const tolerated = 50

// Run implements the Run of a Case. It fails when more than a few of the requests
// had no answer, or one other than 2xx.
func (w Wrk) Run(ctx context.Context, d time.Duration) (Sample, error) {
	args, err := w.arguments(d)
	if err != nil {
		return Sample{}, err
	}
	before := w.Server.CPU()
	out, err := exec.CommandContext(ctx, "wrk", args...).CombinedOutput()
	cpu := w.Server.CPU() - before
	if err != nil {
		return Sample{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	s, err := parse(out)
	s.CPU = cpu
	return s, err
}

func (w Wrk) arguments(d time.Duration) ([]string, error) {
	lua, requests := filepath.Join(w.Dir, "wrk.lua"), filepath.Join(w.Dir, "requests")
	var b bytes.Buffer
	for _, r := range w.Requests {
		var one bytes.Buffer
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		again := r.Clone(r.Context())
		again.Body = body
		if err := again.Write(&one); err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%d\n", one.Len())
		b.Write(one.Bytes())
	}
	if err := os.WriteFile(requests, b.Bytes(), 0o600); err != nil {
		return nil, err
	}
	seconds := strconv.Itoa(max(1, int(d.Round(time.Second).Seconds())))
	return []string{"-t1", "-c" + strconv.Itoa(w.Conns), "-d" + seconds + "s", "--timeout", "30s", "-s", lua,
		"http://" + w.Server.Addr, "--", requests}, os.WriteFile(lua, script, 0o600)
}

// report is the last line of the script's output.
type report struct {
	Requests, Micros              int
	P50, P99                      float64 // µs
	Connect, Read, Write, Timeout int
	Status                        int
}

func parse(out []byte) (Sample, error) {
	var r report
	line := out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:]
	if err := json.Unmarshal(line, &r); err != nil {
		return Sample{}, fmt.Errorf("wrk wrote %q: %w", out, err)
	}
	if failed := r.Connect + r.Read + r.Write + r.Timeout + r.Status; failed*tolerated > r.Requests {
		return Sample{}, fmt.Errorf("%d of %d requests failed: %s", failed, r.Requests, bytes.TrimSpace(line))
	}
	micros := func(n float64) time.Duration { return time.Duration(n * float64(time.Microsecond)) }
	return Sample{Count: r.Requests, Took: micros(float64(r.Micros)), P50: micros(r.P50), P99: micros(r.P99)}, nil
}
