package policy

import (
	"encoding/json"
	"fmt"
)

// Freeze writes the decision as it is kept in a record.
func (d Decision) Freeze() (json.RawMessage, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("freeze decision: %w", err)
	}
	return b, nil
}

// Thaw reads a frozen decision. Members that the version which wrote it did not
// know have the values that are built in; members that this one does not know
// are ignored.
func Thaw(frozen json.RawMessage) (Decision, error) {
	d, _ := layers{builtIn()}.resolve()
	if err := json.Unmarshal(frozen, &d); err != nil {
		return Decision{}, fmt.Errorf("thaw decision: %w", err)
	}
	return d, nil
}
