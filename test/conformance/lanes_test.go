package conformance

import (
	"context"
	_ "embed"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/test/e2e"
	"taskgate/wire"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

//go:embed policy.yaml
var fixturePolicy string

//go:embed excuses.yaml
var excusesFile []byte

//go:embed testdata/tasks.checks
var tasksCheckList string

// tasksScenarios are those of SEP-2663.
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

func isTasks(scenario string) bool    { return slices.Contains(tasksScenarios, scenario) }
func isEdge(scenario string) bool     { return slices.Contains(edgeScenarios, scenario) }
func isNotTasks(scenario string) bool { return !isTasks(scenario) }
func isOther(scenario string) bool    { return !isTasks(scenario) && !isEdge(scenario) }

// lane is one row of the table in docs/conformance.md: some checks, through the
// gateway, to one kind of server.
type lane struct {
	name, checks, upstream string
	report                 func() Report // what the suite found
	want                   func() []Key  // what it must have found
}

func TestLanes(t *testing.T) {
	suite := Suite{mcptest.Node(t), mcptest.NPMFile(t, "@modelcontextprotocol", "conformance", "dist", "index.js")}
	excuses, err := ParseExcuses(excusesFile)
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for _, l := range lanes(t, suite) {
		t.Run(l.name, func(t *testing.T) {
			v := Judge(l.report(), l.want(), excuses[l.name])
			for _, c := range v.Complaints {
				t.Error(c)
			}
			rows = append(rows, row{l.checks, l.upstream, v})
			delete(excuses, l.name)
		})
	}
	if len(rows) < 6 {
		return // -run has chosen some
	}
	for name := range excuses {
		t.Errorf("there are excuses for %q, which is no lane", name)
	}
	publish(t, rows)
}

// lanes prepares the lanes. Runs of the suite that several lanes look at are made
// once, by the first of them.
//
// What the Go SDK's conformance server meets on its own when it speaks 2026-07-28
// must be met through the gateway as well, even when that server does not speak it;
// and what it meets as a server of 2025-11-25, for the clients of that revision.
func lanes(t *testing.T, s Suite) []lane {
	alone := sync.OnceValue(func() Report { return onItsOwn(t, s, wire.Version, 153) })
	legacy := sync.OnceValue(func() Report { return requirements(t, s, wire.Version, gateway(t, e2e.GoSDKServer(t, false))) })
	modern := func() Report { return requirements(t, s, wire.Version, gateway(t, e2e.GoSDKServer(t, true))) }
	met := func(keep func(string) bool) func() []Key {
		return func() []Key { return alone().Successes(keep) }
	}
	return []lane{
		{"tasks-legacy", "Tasks (SEP-2663)", "2025-11-25, fixture",
			func() Report { return tasks(t, s, mcptest.NewLegacy) }, tasksChecks},
		{"tasks-modern", "Tasks (SEP-2663)", "2026-07-28, fixture",
			func() Report { return tasks(t, s, mcptest.NewModern) }, tasksChecks},
		{"edge", "Headers, statelessness, caching, rebinding", "2025-11-25, Go SDK",
			func() Report { return legacy().only(isEdge) }, met(isEdge)},
		{"legacy", "Everything else of 2026-07-28", "2025-11-25, Go SDK",
			func() Report { return legacy().only(isOther) }, met(isOther)},
		{"modern", "All of 2026-07-28 but tasks", "2026-07-28, Go SDK",
			func() Report { return modern().only(isNotTasks) }, met(isNotTasks)},
		{"older-client", "All of 2025-11-25", "2025-11-25, Go SDK",
			func() Report { return requirements(t, s, wire.LegacyVersion, gateway(t, e2e.GoSDKServer(t, false))) },
			func() []Key { return onItsOwn(t, s, wire.LegacyVersion, 82).Successes(isNotTasks) }},
	}
}

// onItsOwn runs the suite without the gateway. Fewer than least checks mean that
// something is wrong with the run.
func onItsOwn(t *testing.T, s Suite, version string, least int) Report {
	t.Helper()
	report := requirements(t, s, version, e2e.GoSDKServer(t, version == wire.Version))
	if n := len(report.Successes(isNotTasks)); n < least {
		t.Fatalf("without the gateway only %d checks are met, not %d", n, least)
	}
	return report
}

// tasks runs the scenarios of SEP-2663 over the fixture tools. They run one by
// one: no set of the suite takes all of them in and scores them.
func tasks(t *testing.T, s Suite, era func(...mcptest.Tool) *mcptest.Upstream) Report {
	u := era(mcptest.Fixtures(time.Second)...)
	u.HandleFixtures()
	url := gateway(t, u.Start(t))
	report := Report{}
	for _, scenario := range tasksScenarios {
		run(t, s, report, url, "--scenario", scenario)
	}
	return report
}

// tasksChecks are the 44 checks of those scenarios.
func tasksChecks() []Key {
	var keys []Key
	for line := range strings.Lines(tasksCheckList) {
		keys = append(keys, Key(strings.TrimSpace(line)))
	}
	return keys
}

func requirements(t *testing.T, s Suite, version, url string) Report {
	report := Report{}
	run(t, s, report, url, "--requirements", version)
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
