package policy

import (
	"bytes"
	"encoding/json"
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// facts are what conditions see of one query. JSON is decoded when a condition
// first uses it, and then once for all conditions.
type facts struct {
	query   Query
	decoded map[string]any
}

// ResolveName gives a condition the value of a variable.
func (f *facts) ResolveName(name string) (any, bool) {
	switch name {
	case "args":
		return f.object(name, f.query.Arguments), true
	case "tool.name":
		return f.query.Tool, true
	case "tool.annotations":
		return f.object(name, f.query.Annotations), true
	case "client.name":
		return f.clientName(), true
	case "client.capabilities":
		return f.object(name, f.query.Capabilities), true
	case "principal.tenant":
		return f.query.Tenant, true
	case "principal.subject":
		return f.query.Subject, true
	case "headers":
		return f.query.Headers, true
	}
	return nil, false
}

// Parent is nil: there is nothing else to see.
func (f *facts) Parent() cel.Activation { return nil }

// object decodes a JSON object: no JSON is an empty one, and whatever else is
// there makes the evaluation fail. Numbers keep all their digits.
func (f *facts) object(name string, raw json.RawMessage) any {
	if v, ok := f.decoded[name]; ok {
		return v
	}
	if f.decoded == nil {
		f.decoded = map[string]any{}
	}
	f.decoded[name] = decodeObject(name, raw)
	return f.decoded[name]
}

func decodeObject(name string, raw json.RawMessage) any {
	object := map[string]any{}
	if len(raw) == 0 {
		return object
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&object); err != nil {
		return types.WrapErr(fmt.Errorf("%s: %w", name, err))
	}
	return object
}

func (f *facts) clientName() any {
	var info struct {
		Name string `json:"name"`
	}
	if len(f.query.ClientInfo) == 0 {
		return ""
	}
	if err := json.Unmarshal(f.query.ClientInfo, &info); err != nil {
		return types.WrapErr(fmt.Errorf("client.name: %w", err))
	}
	return info.Name
}
