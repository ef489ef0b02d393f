package wire

import "slices"

// Label is the method if it is a standard one, or tasks/list, which an older
// revision has; "" for none, else "other": others are a client's own words.
func Label(method string) string {
	if method == "" || method == "tasks/list" || IsStandard(method) {
		return method
	}
	return "other"
}

// IsStandard tells the requests of 2026-07-28 and of SEP-2663 that a client may
// send.
func IsStandard(method string) bool { return slices.Contains(standardMethods, method) }

var standardMethods = []string{
	"server/discover", "tools/call", "tools/list", "tasks/get", "tasks/update", "tasks/cancel",
	"subscriptions/listen", "prompts/list", "prompts/get", "resources/list", "resources/read",
	"resources/templates/list", "completion/complete",
}
