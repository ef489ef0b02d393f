package wire

import (
	"testing"
	"time"
)

var created = time.Date(2026, 8, 1, 14, 30, 0, 999_999_999, time.FixedZone("", 2*3600))

func task(status string) Task {
	return Task{ID: `t"1`, Status: status, CreatedAt: created, LastUpdatedAt: created.Add(time.Minute), TTL: time.Hour, PollInterval: 1500 * time.Millisecond}
}

const seed = `"taskId":"t\"1","status":`
const times = `"createdAt":"2026-08-01T12:30:00.999Z","lastUpdatedAt":"2026-08-01T12:31:00.999Z","ttlMs":3600000,"pollIntervalMs":1500`

func TestTaskShapes(t *testing.T) {
	working := task(StatusWorking)
	said := working
	said.StatusMessage = "2 of 3"
	asks := task(StatusInputRequired)
	asks.Inputs = Object{}.With("k1", Raw(`{"method":"roots/list"}`)).With("k2", Raw(`{"method":"elicitation/create" }`))
	done := task(StatusCompleted)
	done.Result = Raw(`{"content":[ ],"resultType":"complete"}`)
	failed := task(StatusFailed)
	failed.StatusMessage, failed.Error = "it broke", Raw(`{"code":-1,"message":"m"}`)
	unlimited := Task{ID: "t", Status: StatusCancelled, CreatedAt: created, LastUpdatedAt: created, Result: Raw("1"), Error: Raw("2")}
	short := task(StatusWorking)
	short.TTL, short.PollInterval = time.Microsecond, time.Microsecond

	for _, c := range []struct {
		name string
		got  Raw
		want string
	}{
		{"handle", working.CreateResult(), `{"resultType":"task",` + seed + `"working",` + times + `}`},
		{"handle of a finished task", done.CreateResult(), `{"resultType":"task",` + seed + `"completed",` + times + `}`},
		{"handle of a task that asks", asks.CreateResult(), `{"resultType":"task",` + seed + `"input_required",` + times + `}`},
		{"working", working.GetResult(), `{"resultType":"complete",` + seed + `"working",` + times + `}`},
		{"status message", said.GetResult(), `{"resultType":"complete",` + seed + `"working","statusMessage":"2 of 3",` + times + `}`},
		{"input required", asks.GetResult(), `{"resultType":"complete",` + seed + `"input_required",` + times + `,"inputRequests":{"k1":{"method":"roots/list"},"k2":{"method":"elicitation/create" }}}`},
		{"completed", done.GetResult(), `{"resultType":"complete",` + seed + `"completed",` + times + `,"result":{"content":[ ],"resultType":"complete"}}`},
		{"failed", failed.GetResult(), `{"resultType":"complete",` + seed + `"failed","statusMessage":"it broke",` + times + `,"error":{"code":-1,"message":"m"}}`},
		{"cancelled, unlimited", unlimited.GetResult(), `{"resultType":"complete","taskId":"t","status":"cancelled","createdAt":"2026-08-01T12:30:00.999Z","lastUpdatedAt":"2026-08-01T12:30:00.999Z","ttlMs":null}`},
		{"never 0 ms", short.CreateResult(), `{"resultType":"task",` + seed + `"working","createdAt":"2026-08-01T12:30:00.999Z","lastUpdatedAt":"2026-08-01T12:31:00.999Z","ttlMs":1,"pollIntervalMs":1}`},
		{"notification", done.Notification(Raw(`"s1"`)), `{"_meta":{"io.modelcontextprotocol/subscriptionId":"s1"},` + seed + `"completed",` + times + `,"result":{"content":[ ],"resultType":"complete"}}`},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, c.got, c.want)
		}
	}
}
