package taskrun

import (
	"fmt"
	"strings"
	"testing"

	"taskgate/upstream"
	"taskgate/wire"
)

func TestUnreadableAnswerIsNoParseErrorOfTheClient(t *testing.T) {
	broken := fmt.Errorf("read: %w", wire.Errorf(wire.CodeParse, "Parse error: invalid character"))
	got := WireError(&upstream.Error{Kind: upstream.Broken, MayHaveRun: true, Err: broken})
	if got.Code != wire.CodeInternal || !strings.Contains(string(got.Data), "outcome_unknown") {
		t.Errorf("error: %v %s, want code %d and reason outcome_unknown", got, got.Data, wire.CodeInternal)
	}
}
