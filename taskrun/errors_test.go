package taskrun

import (
	"errors"
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

func TestAnswerThatIsTooLargeTellsTheLimit(t *testing.T) {
	got := WireError(&upstream.Error{Kind: upstream.TooLarge, MayHaveRun: true, Status: 200, Size: 2048, Limit: 1024, Err: errors.New("x")})
	if want := `{"reason":"upstream_too_large","retriable":false,"upstreamStatus":200,"size":2048,"limit":1024}`; string(got.Data) != want {
		t.Errorf("data: %s, want %s", got.Data, want)
	}
}
