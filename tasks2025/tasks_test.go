package tasks2025

import (
	"testing"
	"time"

	"taskgate/legacyfront"
	"taskgate/wire"
)

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %v\nwant %v", what, got, want)
	}
}

func object(t *testing.T, json string) wire.Object {
	t.Helper()
	o, err := wire.ParseObject(wire.Raw(json))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Only sessions of the one revision have the tasks, and what is announced is there.
func TestExtension(t *testing.T) {
	for _, toldApart := range []bool{false, true} {
		for _, version := range []string{"2025-03-26", "2025-06-18", wire.Version} {
			if e := Extend(toldApart)(version); len(e.Capabilities)+len(e.Methods) > 0 {
				t.Errorf("%s has %s and %d methods", version, e.Capabilities.Bytes(), len(e.Methods))
			}
		}
		e := Extend(toldApart)(wire.LegacyVersion)
		tasks, _ := e.Capabilities.Object("tasks")
		for capability, method := range map[string]string{"cancel": "tasks/cancel", "requests": "tools/call", "list": "tasks/list"} {
			want := capability != "list" || toldApart
			check(t, capability+" is announced", tasks.Get(capability) != nil, want)
			check(t, method+" is there", e.Methods[method] != nil, want)
		}
	}
}

func TestWantedTTL(t *testing.T) {
	for params, want := range map[string]time.Duration{
		`{"task":{}}`:               0,
		`{"task":{"ttl":null}}`:     0,
		`{"task":{"ttl":1}}`:        time.Millisecond,
		`{"task":{"ttl":60000}}`:    time.Minute,
		`{"task":{"ttl":6e4}}`:      time.Minute,
		`{"task":{"ttl":1500.9}}`:   1500 * time.Millisecond,
		`{"task":{"ttl":1e300}}`:    100 * 365 * 24 * time.Hour,
		`{"task":{"ttl":0}}`:        -1,
		`{"task":{"ttl":-5}}`:       -1,
		`{"task":{"ttl":"60000"}}`:  -1,
		`{"task":{"ttl":[]}}`:       -1,
		`{"task":true}`:             -1,
		`{"task":[]}`:               -1,
		`{"task":"io.modelcontex"}`: -1,
	} {
		got, rpc := wantedTTL(object(t, params))
		if want < 0 {
			if rpc == nil || rpc.Code != wire.CodeInvalidParams {
				t.Errorf("%s: %v, want it refused", params, rpc)
			}
			continue
		}
		if rpc != nil {
			t.Errorf("%s: %v", params, rpc)
		}
		check(t, params, got, want)
	}
}

// Names are this revision's, and what only SEP-2663 has is left out.
func TestFlat(t *testing.T) {
	for task, want := range map[string]string{
		`{"resultType":"complete","taskId":"A","status":"completed","statusMessage":"m","createdAt":"c","lastUpdatedAt":"u","ttlMs":5,"pollIntervalMs":7,"result":{"x":1}}`: `{"taskId":"A","status":"completed","statusMessage":"m","createdAt":"c","lastUpdatedAt":"u","ttl":5,"pollInterval":7}`,
		`{"taskId":"A","status":"input_required","createdAt":"c","lastUpdatedAt":"u","ttlMs":null,"inputRequests":{}}`:                                                      `{"taskId":"A","status":"input_required","createdAt":"c","lastUpdatedAt":"u","ttl":null}`,
	} {
		check(t, task, string(flat(object(t, task)).Bytes()), want)
	}
}

// A tool that must be a task is no method to who does not ask for one; other errors
// are not touched.
func TestMustBeTask(t *testing.T) {
	other := legacyfront.Fail(wire.MissingCapability(wire.Raw(`{"elicitation":{}}`)))
	check(t, "another capability", string(mustBeTask(other).Error), string(other.Error))
	result := legacyfront.Answer{Result: wire.Raw(`{"content":[]}`)}
	check(t, "a result", string(mustBeTask(result).Result), string(result.Result))
	a := mustBeTask(legacyfront.Fail(wire.MissingCapability(wire.TasksRequired)))
	check(t, "the tasks", wire.ParseError(a.Error).Code, wire.CodeMethodNotFound)
}
