package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Suite is the installed npm package @modelcontextprotocol/conformance.
type Suite struct {
	Node   string // the program, version 22 or newer
	Script string // the package's dist/index.js
}

// Check is one outcome of the suite.
type Check struct {
	ID           string `json:"id"`
	Status       string `json:"status"`
	ErrorMessage string `json:"errorMessage"`
}

// Success is the status of a check that was met. The others are FAILURE,
// WARNING, INFO and SKIPPED.
const Success = "SUCCESS"

// Key names a check in all runs alike: scenario/check-id, with #2, #3, … when a
// scenario emits the id several times.
type Key string

// Scenario is the first half of the key.
func (k Key) Scenario() string {
	scenario, _, _ := strings.Cut(string(k), "/")
	return scenario
}

// Report holds the outcomes of one or more runs.
type Report map[Key]Check

// Run runs the suite's server leg with the given flags against url and adds
// what it finds to the report. The suite's exit code says nothing that the
// checks do not say, but a run without any check is an error.
func (s Suite) Run(ctx context.Context, into Report, url string, flags ...string) error {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	args := append([]string{s.Script, "server", "--url", url, "-o", dir}, flags...)
	out, err := exec.CommandContext(ctx, s.Node, args...).CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("run the suite: %w", err)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("run the suite: %w", ctx.Err())
	}
	before := len(into)
	if err := into.read(dir); err != nil {
		return fmt.Errorf("outcome of %v: %w", flags, err)
	}
	if len(into) == before {
		return fmt.Errorf("the suite made no check with %v:\n%s", flags, out)
	}
	return nil
}

// folder is how the suite names what it writes for a scenario.
var folder = regexp.MustCompile(`^server-(.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d+Z$`)

func (r Report) read(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		name := folder.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		if name == nil {
			return fmt.Errorf("no scenario in the name %s", file)
		}
		if err := r.readScenario(name[1], file); err != nil {
			return fmt.Errorf("%s: %w", name[1], err)
		}
	}
	return nil
}

func (r Report) readScenario(scenario, file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var checks []Check
	if err := json.Unmarshal(raw, &checks); err != nil {
		return err
	}
	seen := map[string]int{}
	for _, c := range checks {
		seen[c.ID]++
		key := Key(scenario + "/" + c.ID)
		if n := seen[c.ID]; n > 1 {
			key = Key(fmt.Sprintf("%s#%d", key, n))
		}
		r[key] = c
	}
	return nil
}
