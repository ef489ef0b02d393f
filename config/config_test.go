package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// withUpstream is an overlay that makes the defaults valid.
func withUpstream(c *Config) error { return c.SetUpstream("http://127.0.0.1:3000/mcp") }

func TestDefaultNeedsOnlyAnUpstream(t *testing.T) {
	c, err := Load("", nil, withUpstream)
	if err != nil {
		t.Fatal(err)
	}
	if u := c.Upstreams[0]; u.Name != "default" || u.Path != "/mcp" || u.URL != "http://127.0.0.1:3000/mcp" || u.Era != EraAuto || u.Limits.Concurrency != 64 {
		t.Errorf("got %+v", u)
	}
	if c.Listen != "127.0.0.1:8080" || c.Store.Kind() != StoreEmbedded || c.Limits.MaxBodyBytes != 4<<20 || c.Timeouts.KeepAlive != 15*time.Second || c.Lease != 10*time.Second {
		t.Errorf("got %+v", c)
	}
}

// TestPrecedence: defaults, then the file, then the environment, then flags.
func TestPrecedence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	text := "adminListen: 127.0.0.1:1\nlisten: 127.0.0.1:3\nlog: {level: debug, format: console}\nupstreams: [{name: file, url: http://127.0.0.1:1/}]\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	environ := []string{"TASKGATE_LISTEN=127.0.0.1:2", "TASKGATE_LOG_LEVEL=warn", "TASKGATE_STORE=memory", "TASKGATE_LEASE=", "HOME=/"}
	c, err := Load(path, environ, func(c *Config) error {
		c.Log.Level = "error"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.AdminListen != "127.0.0.1:1" || c.Listen != "127.0.0.1:2" || c.Store != "memory" || c.Log != (Log{"error", Console}) || c.Lease != 10*time.Second || c.Upstreams[0].Name != "file" {
		t.Errorf("got %+v", c)
	}
	c, err = Load(path, []string{"TASKGATE_UPSTREAM=npx -y server"}, nil)
	if err != nil || len(c.Upstreams) != 1 || c.Upstreams[0].Name != "default" || strings.Join(c.Upstreams[0].Command, "|") != "npx|-y|server" {
		t.Errorf("got %+v, %v", c.Upstreams, err)
	}
}

// TestBadFiles loads each file of testdata/bad and compares the error with the
// .txt beside it.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			_, err := Load(name, nil, nil)
			if err == nil {
				t.Fatal("loaded")
			}
			if strings.Contains(err.Error(), "secret@") || strings.Contains(err.Error(), "Bearer") {
				t.Errorf("shows a secret: %v", err)
			}
			golden(t, strings.TrimSuffix(name, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}

func TestBadEnvironmentNamesTheVariables(t *testing.T) {
	_, err := Load("testdata/bad/open-without-identity.yaml", []string{
		"TASKGATE_LEASE=10", "TASKGATE_LIMITS_MAX_CALLS=many", "TASKGATE_LIMITS_MAX_BODY_BYTES=1MB", "TASKGATE_INSECURE_NO_IDENTITY=yes", "TASKGATE_TRACING_SAMPLE_RATIO=half",
		"TASKGATE_LISTEN=somewhere", "TASKGATE_LOG_FORMAT=xml", "TASKGATE_REDIS_PASSWORD=env:NONE", "TASKGATE_UPSTREAM=",
	}, func(c *Config) error {
		c.AdminListen = "here"
		return nil
	})
	want := `TASKGATE_INSECURE_NO_IDENTITY: want true or false, not "yes"
TASKGATE_LEASE: "10" has no unit; write 10s for seconds, or use ms, m or h
TASKGATE_LIMITS_MAX_BODY_BYTES: "1MB" is not a size; write one such as 64KiB, 4MiB or 1GiB
TASKGATE_LIMITS_MAX_CALLS: want a whole number, not "many"
TASKGATE_TRACING_SAMPLE_RATIO: want a number, not "half"
TASKGATE_REDIS_PASSWORD: the environment variable NONE is not set
TASKGATE_LISTEN: "somewhere" is not host:port; write one such as 127.0.0.1:8080
adminListen: "here" is not host:port; write one such as 127.0.0.1:8080
redis: does nothing with this store; write store: redis://host:6379/0, or leave redis out
TASKGATE_LOG_FORMAT: "xml" is not known; write one of json, console`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

func TestUnreadableFile(t *testing.T) {
	if _, err := Load("testdata/none.yaml", nil, withUpstream); err == nil || !strings.Contains(err.Error(), "testdata/none.yaml: no such file") {
		t.Errorf("got %v", err)
	}
}

func TestSetUpstream(t *testing.T) {
	for s, want := range map[string]string{
		"":                     "want an URL or a command",
		"  ":                   "want an URL or a command",
		`sh -c "a b"`:          "must be written as a list",
		"https://host/mcp":     "",
		"./server --port 3000": "",
	} {
		var c Config
		err := c.SetUpstream(s)
		if (want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", s, err, want)
		}
	}
}

func TestLoopback(t *testing.T) {
	for listen, ok := range map[string]bool{
		"127.0.0.1:0": true, "localhost:1": true, "[::1]:1": true, "127.5.5.5:1": true,
		"0.0.0.0:1": false, ":1": false, "[::]:1": false, "10.0.0.1:1": false, "example.com:1": false, "localhost.example.com:1": false,
	} {
		c, _ := Load("", nil, withUpstream)
		c.Listen = listen
		if err := c.Validate(); (err == nil) != ok {
			t.Errorf("%s: %v", listen, err)
		}
		c.InsecureNoIdentity = true
		if err := c.Validate(); err != nil {
			t.Errorf("%s with insecureNoIdentity: %v", listen, err)
		}
	}
}
