package wire

import (
	"encoding/json"
	"slices"
)

// Notifications that travel on a subscriptions/listen stream
// (basic/patterns/subscriptions).
const (
	NoteTools        = "notifications/tools/list_changed"
	NotePrompts      = "notifications/prompts/list_changed"
	NoteResources    = "notifications/resources/list_changed"
	NoteResource     = "notifications/resources/updated"
	NoteAcknowledged = "notifications/subscriptions/acknowledged"
)

// Filter is the member "notifications" of subscriptions/listen: what somebody
// wants to hear of. The lists are sorted and without duplicates.
type Filter struct {
	Tools     bool // toolsListChanged
	Prompts   bool // promptsListChanged
	Resources bool // resourcesListChanged
	URIs      []string
	TaskIDs   []string // SEP-2663, Task Status Notifications; nil: not asked for
}

// ParseFilter reads a filter. Members it does not know are passed over: who
// asked for them sees that they are not acknowledged.
func ParseFilter(raw Raw) (Filter, *Error) {
	o, err := splitObject(raw)
	if err != nil {
		return Filter{}, Errorf(CodeInvalidParams, "Invalid params: params.notifications is missing or no object")
	}
	var f Filter
	for _, m := range o {
		if field := f.field(m.Name); field != nil && json.Unmarshal(m.Value, field) != nil {
			return Filter{}, Errorf(CodeInvalidParams, "Invalid params: params.notifications.%s is of another type than the protocol says", m.Name)
		}
	}
	f.URIs, f.TaskIDs = sorted(f.URIs), sorted(f.TaskIDs)
	return f, nil
}

func (f *Filter) field(member string) any {
	switch member {
	case "toolsListChanged":
		return &f.Tools
	case "promptsListChanged":
		return &f.Prompts
	case "resourcesListChanged":
		return &f.Resources
	case "resourceSubscriptions":
		return &f.URIs
	case "taskIds":
		return &f.TaskIDs
	}
	return nil
}

func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// Object writes the filter. What is not asked for is left out.
func (f Filter) Object() Object {
	var o Object
	for _, m := range []struct {
		name string
		on   bool
	}{{"toolsListChanged", f.Tools}, {"promptsListChanged", f.Prompts}, {"resourcesListChanged", f.Resources}} {
		if m.on {
			o = o.With(m.name, Raw("true"))
		}
	}
	if len(f.URIs) > 0 {
		o = o.With("resourceSubscriptions", quoteAll(f.URIs))
	}
	if f.TaskIDs != nil {
		o = o.With("taskIds", quoteAll(f.TaskIDs))
	}
	return o
}

func quoteAll(list []string) Raw {
	quoted := make([]Raw, len(list))
	for i, s := range list {
		quoted[i] = Quote(s)
	}
	return JoinArray(quoted)
}

// WithoutTasks is the part of the filter that is not about tasks.
func (f Filter) WithoutTasks() Filter {
	f.TaskIDs = nil
	return f
}

// IsEmpty tells a filter that asks for nothing.
func (f Filter) IsEmpty() bool {
	return !f.Tools && !f.Prompts && !f.Resources && len(f.URIs) == 0 && len(f.TaskIDs) == 0
}

// Union is what either filter asks for.
func (f Filter) Union(g Filter) Filter {
	return Filter{
		Tools: f.Tools || g.Tools, Prompts: f.Prompts || g.Prompts, Resources: f.Resources || g.Resources,
		URIs: sorted(slices.Concat(f.URIs, g.URIs)), TaskIDs: sorted(slices.Concat(f.TaskIDs, g.TaskIDs)),
	}
}

// Common is what both filters ask for.
func (f Filter) Common(g Filter) Filter {
	return Filter{
		Tools: f.Tools && g.Tools, Prompts: f.Prompts && g.Prompts, Resources: f.Resources && g.Resources,
		URIs: common(f.URIs, g.URIs), TaskIDs: common(f.TaskIDs, g.TaskIDs),
	}
}

func common(a, b []string) []string {
	var out []string
	for _, s := range a {
		if _, found := slices.BinarySearch(b, s); found {
			out = append(out, s)
		}
	}
	return out
}

// Offered is the part of the filter that a server with these capabilities
// tells about. Tasks are not looked at.
func (f Filter) Offered(capabilities Raw) Filter {
	c, _ := splitObject(capabilities)
	has := func(area, what string) bool {
		o, _ := c.Object(area)
		return string(o.Get(what)) == "true"
	}
	out := f.Common(Filter{Tools: has("tools", "listChanged"), Prompts: has("prompts", "listChanged"), Resources: has("resources", "listChanged")})
	if has("resources", "subscribe") {
		out.URIs = f.URIs
	}
	return out
}

// Equal tells filters that ask for the same.
func (f Filter) Equal(g Filter) bool {
	return f.Tools == g.Tools && f.Prompts == g.Prompts && f.Resources == g.Resources &&
		slices.Equal(f.URIs, g.URIs) && slices.Equal(f.TaskIDs, g.TaskIDs)
}

// Admits tells whether the filter asks for a notification other than those of
// tasks. An update may also be of something below a resource that was asked for
// (notifications/resources/updated in the schema).
func (f Filter) Admits(method string, params Raw) bool {
	switch method {
	case NoteTools:
		return f.Tools
	case NotePrompts:
		return f.Prompts
	case NoteResources:
		return f.Resources
	case NoteResource:
		uri := UpdatedURI(params)
		return uri != "" && slices.ContainsFunc(f.URIs, func(want string) bool { return within(uri, want) })
	}
	return false
}

// UpdatedURI is the resource that the params of a notifications/resources/updated
// are about; "" when they name none.
func UpdatedURI(params Raw) string {
	o, _ := splitObject(params)
	uri, _ := String(o.Get("uri"))
	return uri
}

// within tells whether uri is the resource parent or below it.
func within(uri, parent string) bool {
	if len(uri) < len(parent) || uri[:len(parent)] != parent {
		return false
	}
	if len(uri) == len(parent) || len(parent) > 0 && parent[len(parent)-1] == '/' {
		return true
	}
	next := uri[len(parent)]
	return next == '/' || next == '?' || next == '#'
}
