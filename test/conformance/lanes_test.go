package conformance

import (
	"context"
	_ "embed"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"taskgate/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

//go:embed policy.yaml
var fixturePolicy string

//go:embed excuses.yaml
var excusesFile []byte

//go:embed testdata/tasks.checks
var tasksChecks string

// tasksScenarios are those of SEP-2663. They run one by one: no set of the suite
// takes them all in and scores them.
var tasksScenarios = []string{
	"tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal",
	"tasks-mrtr-input", "tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-status-notifications",
	"tasks-required-task-error", "tasks-mrtr-composition",
}

// edgeScenarios are about what a gateway answers itself, whatever is behind it.
var edgeScenarios = []string{
	"http-header-validation", "http-custom-header-server-validation", "dns-rebinding-protection",
	"server-stateless", "caching",
}

func isTasks(scenario string) bool { return slices.Contains(tasksScenarios, scenario) }
func isEdge(scenario string) bool  { return slices.Contains(edgeScenarios, scenario) }
func isOther(scenario string) bool { return !isTasks(scenario) && !isEdge(scenario) }

// lane is one row of the table in docs/conformance.md: some checks, through the
// gateway, to one kind of server.
type lane struct {
	checks, upstream string
	judge            func(t *testing.T, s Suite) Verdict
}

var lanes = []lane{
	{"Tasks (SEP-2663)", "2025-11-25, fixture", func(t *testing.T, s Suite) Verdict {
		return judgeTasks(t, s, "legacy")
	}},
	{"Tasks (SEP-2663)", "2026-07-28, fixture", func(t *testing.T, s Suite) Verdict {
		return judgeTasks(t, s, "modern")
	}},
	{"Headers, statelessness, caching, rebinding", "2025-11-25, Go SDK", func(t *testing.T, s Suite) Verdict {
		return judgeServer(t, s, false, isEdge)
	}},
	{"Everything else of 2026-07-28", "2025-11-25, Go SDK", func(t *testing.T, s Suite) Verdict {
		return judgeServer(t, s, false, isOther)
	}},
	{"All of 2026-07-28 but tasks", "2026-07-28, Go SDK", func(t *testing.T, s Suite) Verdict {
		return judgeServer(t, s, true, func(scenario string) bool { return !isTasks(scenario) })
	}},
}

func TestLanes(t *testing.T) {
	suite, err := FindSuite(os.Getenv("TASKGATE_NPM"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for _, l := range lanes {
		t.Run(strings.ReplaceAll(l.checks+" to "+l.upstream, " ", "_"), func(t *testing.T) {
			v := l.judge(t, suite)
			for _, c := range v.Complaints {
				t.Error(c)
			}
			rows = append(rows, row{l.checks, l.upstream, v})
		})
	}
	if len(rows) == len(lanes) { // else -run has chosen some
		publish(t, rows)
	}
}

// judgeTasks runs the tasks scenarios over the fixture tools.
func judgeTasks(t *testing.T, s Suite, era string) Verdict {
	url := gateway(t, fixture(t, era))
	report := Report{}
	for _, scenario := range tasksScenarios {
		run(t, s, report, url, "--scenario", scenario)
	}
	var want []Key
	for line := range strings.Lines(tasksChecks) {
		want = append(want, Key(strings.TrimSpace(line)))
	}
	return Judge(report, want, nil)
}

// judgeServer runs the set of 2026-07-28 over the SDK's conformance server. What
// that server meets on its own when it speaks 2026-07-28 must be met through the
// gateway as well, even when it does not speak it.
func judgeServer(t *testing.T, s Suite, modern bool, keep func(scenario string) bool) Verdict {
	const onItsOwn = 153 // of 2026-07-28 without tasks; fewer means that something is wrong with the run
	alone := requirements(t, s, e2e.GoSDKServer(t, true))
	if n := len(alone.Successes(func(s string) bool { return !isTasks(s) })); n < onItsOwn {
		t.Fatalf("without the gateway only %d checks are met, not %d", n, onItsOwn)
	}
	through := requirements(t, s, gateway(t, e2e.GoSDKServer(t, modern)))
	var excuses []Excuse
	if !modern {
		excuses = excusesFor(t, keep)
	}
	return Judge(through.only(keep), alone.Successes(keep), excuses)
}

func requirements(t *testing.T, s Suite, url string) Report {
	report := Report{}
	run(t, s, report, url, "--requirements", "2026-07-28")
	return report
}

func run(t *testing.T, s Suite, into Report, url string, flags ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := s.Run(ctx, into, url, flags...); err != nil {
		t.Fatal(err)
	}
}

func gateway(t *testing.T, upstream string) string {
	return e2e.Start(t, e2e.Options{Upstream: upstream, Policy: fixturePolicy}).Endpoint
}

// excusesFor are the excuses whose checks belong to the scenarios of keep.
func excusesFor(t *testing.T, keep func(scenario string) bool) []Excuse {
	t.Helper()
	all, err := ParseExcuses(excusesFile)
	if err != nil {
		t.Fatal(err)
	}
	var some []Excuse
	for _, e := range all {
		e.Checks = slices.DeleteFunc(e.Checks, func(k Key) bool { return !keep(k.Scenario()) })
		if len(e.Checks) > 0 {
			some = append(some, e)
		}
	}
	return some
}

// fixture starts the server with the suite's fixture tools.
func fixture(t *testing.T, era string) string {
	t.Helper()
	return e2e.FixtureServer(t, era)
}
