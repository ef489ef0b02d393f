package policy

import (
	"encoding/json"
	"errors"
	"fmt"
)

// hints are what a tool says of itself in its annotations. All of it may be
// untrue: a rule that trusts them says so by being there.
type hints struct {
	ReadOnly    bool  `json:"readOnlyHint"`
	Destructive bool  `json:"destructiveHint"`
	Idempotent  bool  `json:"idempotentHint"`
	OpenWorld   *bool `json:"openWorldHint"` // nil: not said
}

// parseHints reads annotations; none are none.
func parseHints(annotations json.RawMessage) (h hints, err error) {
	if len(annotations) > 0 {
		err = json.Unmarshal(annotations, &h)
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
		err = fmt.Errorf("%s is a %s, not true or false", wrong.Field, wrong.Value)
	}
	return h, err
}
