package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"taskgate/config"
	"taskgate/policy"
	"taskgate/wire"
)

// The documents whose commands and files are tested here.
var documents = []string{"../../README.md", "../../ARCHITECTURE.md", "../../docs/operations.md"}

// recordTo names the file to which this program, when a document's shell block
// calls it by the name of a command, writes how it was called.
const recordTo = "DOCUMENTS_TEST_RECORD"

// invocation is one command of a shell block.
type invocation struct {
	Name string
	Args []string
	Env  []string
}

func TestMain(m *testing.M) {
	if file := os.Getenv(recordTo); file != "" {
		os.Exit(record(file))
	}
	os.Exit(m.Run())
}

func record(file string) int {
	line, err := json.Marshal(invocation{filepath.Base(os.Args[0]), os.Args[1:], os.Environ()})
	if err == nil {
		err = appendLine(file, line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func appendLine(file string, line []byte) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// block is a fenced part of a document.
type block struct {
	at   string // file:line
	text string
}

var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// blocks are the parts in a language. There must be some.
func blocks(t *testing.T, language string) []block {
	t.Helper()
	var out []block
	for _, file := range documents {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllSubmatchIndex(text, -1) {
			if string(text[m[2]:m[3]]) == language {
				line := 1 + strings.Count(string(text[:m[0]]), "\n")
				out = append(out, block{fmt.Sprintf("%s:%d", filepath.Base(file), line), string(text[m[4]:m[5]])})
			}
		}
	}
	if len(out) == 0 {
		t.Fatalf("the documents have no %s", language)
	}
	return out
}

// commands are what shell blocks may call, and how each is checked.
var commands = map[string]func(*testing.T, invocation){
	"gateway": checkGateway,
	"go":      checkGo,
	"curl":    checkCurl,
	"npx":     checkNpx,
	"make":    checkMake,
}

func TestShellBlocks(t *testing.T) {
	for _, b := range blocks(t, "sh") {
		t.Run(b.at, func(t *testing.T) {
			calls := runBlock(t, b.text)
			if len(calls) == 0 {
				t.Error("calls nothing")
			}
			for _, c := range calls {
				commands[c.Name](t, c)
			}
		})
	}
}

// runBlock lets a real shell run the block, with this program in the place of
// each command.
func runBlock(t *testing.T, script string) []invocation {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	for name := range commands {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-eu", "-c", script)
	cmd.Env = []string{"PATH=" + bin, recordTo + "=" + log}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var calls []invocation
	for line := range strings.Lines(string(text)) {
		var c invocation
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, c)
	}
	return calls
}

// checkGateway parses the flags, and loads the environment, as the program does.
func checkGateway(t *testing.T, c invocation) {
	if err := parse(c.Args); err != nil {
		t.Errorf("gateway %q: %v", c.Args, err)
	}
	upstream := func(cfg *config.Config) error { return cfg.SetUpstream("http://127.0.0.1:1/mcp") }
	cfg, err := config.Load("", c.Env, upstream)
	if err != nil {
		t.Errorf("environment: %v", err)
	}
	if unknown := config.UnknownVariables(c.Env, cfg); len(unknown) > 0 {
		t.Errorf("unknown variables: %v", unknown)
	}
}

// parse is what is wrong with a command and its flags.
func parse(args []string) error {
	cmd, args, err := program().Find(args)
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err == nil {
		err = cmd.ValidateRequiredFlags()
	}
	return err
}

func checkGo(t *testing.T, c invocation) {
	if len(c.Args) < 3 || c.Args[0] != "run" || c.Args[1] != "./cmd/gateway" {
		t.Fatalf("go %q: want go run ./cmd/gateway and a command", c.Args)
	}
	c.Args = c.Args[2:]
	checkGateway(t, c)
}

// checkCurl looks at an MCP request as the gateway does, before it is let in.
func checkCurl(t *testing.T, c invocation) {
	header, body := http.Header{}, ""
	for i, arg := range c.Args {
		switch {
		case arg == "-H" && i+1 < len(c.Args):
			name, value, _ := strings.Cut(c.Args[i+1], ": ")
			header.Set(name, value)
		case arg == "-d" && i+1 < len(c.Args):
			body = c.Args[i+1]
		}
	}
	if body == "" {
		return // a GET of the admin listener
	}
	msg, rpc := wire.Decode([]byte(body))
	if rpc != nil {
		t.Fatalf("curl: body: %v", rpc)
	}
	params, err := wire.ParseObject(msg.Params)
	if err != nil {
		t.Fatalf("curl: params: %v", err)
	}
	meta, rpc := wire.ParseMeta(params)
	if rpc != nil {
		t.Fatalf("curl: _meta: %v", rpc)
	}
	if rpc := wire.CheckHeaders(header, msg, params, meta.Version); rpc != nil {
		t.Errorf("curl: %v", rpc)
	}
	if !meta.Capabilities.DeclaresTasks() {
		t.Error("curl: does not declare the tasks extension")
	}
}

// checkNpx wants what is downloaded from elsewhere to be named in full. What it
// does is tested with the built program, in test/e2e.
func checkNpx(t *testing.T, c invocation) {
	if len(c.Args) < 2 || c.Args[0] != "-y" || !strings.HasPrefix(c.Args[1], "@modelcontextprotocol/") {
		t.Errorf("npx %q: want npx -y @modelcontextprotocol/…", c.Args)
	}
}

func checkMake(t *testing.T, c invocation) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range c.Args {
		if !regexp.MustCompile("(?m)^" + regexp.QuoteMeta(target) + ":").Match(makefile) {
			t.Errorf("make %s: there is no such target", target)
		}
	}
}

// TestFileBlocks loads each YAML block as the file that its first line names.
func TestFileBlocks(t *testing.T) {
	load := map[string]func(file string) error{
		"# config.yaml": func(file string) error {
			_, err := config.Load(file, []string{"REPORTS_AUTHORIZATION=Bearer test"}, nil)
			return err
		},
		"# policy.yaml": func(file string) error {
			set, err := policy.Load([]string{file}, nil)
			if err == nil && len(set.Warnings()) > 0 {
				return set.Warnings()
			}
			return err
		},
	}
	for _, b := range blocks(t, "yaml") {
		t.Run(b.at, func(t *testing.T) {
			first, _, _ := strings.Cut(b.text, "\n")
			if load[first] == nil {
				t.Fatalf("begins with %q and not with the name of a file", first)
			}
			file := filepath.Join(t.TempDir(), strings.TrimPrefix(first, "# "))
			if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := load[first](file); err != nil {
				t.Error(err)
			}
		})
	}
}

var link = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	n := 0
	for _, document := range append(documents, "../../CHANGELOG.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			n++
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), m[1])); err != nil {
				t.Errorf("%s: %v", filepath.Base(document), err)
			}
		}
	}
	if n == 0 {
		t.Error("found no links")
	}
}
