package matrix

import (
	"slices"
	"testing"
)

func TestJudgeWantsAReasonForEachStepThatFailsAndNoOther(t *testing.T) {
	reasons := []Reason{
		{Clients: []string{"c"}, Steps: []string{"question", "call"}, Reason: "it cannot be asked"},
		{Upstreams: []string{"elsewhere"}, Steps: []string{"slow"}, Reason: "not here"},
	}
	said := []Step{{Step: "connect", OK: true}, {Step: "list", OK: true}, {Step: "call", OK: true}, {Step: "slow", Reason: "timeout"}}

	missing, complaints := Judge("c", "u", said, reasons)

	if want := []Missing{{"question", 0}}; !slices.Equal(missing, want) {
		t.Errorf("missing: %v, want %v", missing, want)
	}
	if want := []string{
		"call: works, though entry 1 of the reasons says that it does not",
		"slow: timeout",
		"cancel: the client has not got to it",
	}; !slices.Equal(complaints, want) {
		t.Errorf("complaints: %q, want %q", complaints, want)
	}
}

func TestReasonsAreStrict(t *testing.T) {
	for _, text := range []string{
		"[{steps: [call]}]",
		"[{reason: why}]",
		"[{steps: [jump], reason: why}]",
		"[{clients: [nobody], steps: [call], reason: why}]",
		"[{upstreams: [nowhere], steps: [call], reason: why}]",
		"[{steps: [call], reason: why, note: unknown}]",
	} {
		if _, err := ParseReasons([]byte(text), []string{"c"}, []string{"u"}); err == nil {
			t.Errorf("accepted: %s", text)
		}
	}
}
