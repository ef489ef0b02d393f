package proxy

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"taskgate/wire"
)

// toolbox is what an upstream has listed of its tools: what policy may look at,
// and which arguments are repeated in headers. It learns from every tools/list
// that passes, and asks by itself about a tool it does not know.
type toolbox struct {
	retry time.Duration // least time between two questions of its own
	now   func() time.Time

	learned func() // called when there is something new

	mu    sync.Mutex
	tools map[string]toolFacts
	asked time.Time
	// first and last: these pages of the list are in tools.
	first, last bool
}

// toolFacts are nil where the tool, or that of it, is not known.
type toolFacts struct {
	annotations wire.Raw
	schema      wire.Raw // only when it names headers (x-mcp-header)
	taskSupport string   // of 2025-11-25
}

// Tool is what an upstream has listed of one of its tools, and policy looks at.
type Tool struct {
	Upstream    string
	Name        string
	Annotations wire.Raw // nil: none
	TaskSupport string   // execution.taskSupport of 2025-11-25; "": none
}

// Tools are those that upstreams have listed as far as it is known, by upstream
// and name.
func (h *Handler) Tools() []Tool {
	var all []Tool
	for _, r := range h.routes {
		for _, t := range r.tools.list() {
			t.Upstream = r.Name
			all = append(all, t)
		}
	}
	slices.SortStableFunc(all, func(a, b Tool) int { return strings.Compare(a.Upstream, b.Upstream) })
	return all
}

// ListsAll tells whether the list of the upstream is known from its first page to
// its last.
func (h *Handler) ListsAll(upstream string) bool {
	t := h.toolsOf(upstream)
	return t != nil && t.isWhole()
}

// Lists tells whether the upstream is known to list the tool.
func (h *Handler) Lists(upstream, tool string) bool {
	t := h.toolsOf(upstream)
	return t != nil && t.lists(tool)
}

// toolsOf is nil when there is no such upstream.
func (h *Handler) toolsOf(upstream string) *toolbox {
	for _, r := range h.routes {
		if r.Name == upstream {
			return r.tools
		}
	}
	return nil
}

func newToolbox(o Options) *toolbox {
	return &toolbox{retry: o.InfoTTL, now: o.Now, learned: o.Learned, tools: map[string]toolFacts{}}
}

// facts of a tool. list asks the upstream; a failure means that nothing is known.
func (t *toolbox) facts(ctx context.Context, tool string, list func(context.Context) (wire.Raw, error)) toolFacts {
	if f, ok := t.known(tool); ok {
		return f
	}
	if result, err := list(ctx); err == nil {
		t.learn(nil, result)
	}
	f, _ := t.known(tool)
	return f
}

// known tells what is known of a tool; ok is true also when it is not the time
// to ask again.
func (t *toolbox) known(tool string) (f toolFacts, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f, ok = t.tools[tool]; ok {
		return f, true
	}
	if t.now().Sub(t.asked) < t.retry {
		return f, true
	}
	t.asked = t.now()
	return f, false
}

// learn takes a tools/list result in, which was asked for with the cursor. Pages
// add to each other; what is listed again is replaced.
func (t *toolbox) learn(cursor, result wire.Raw) {
	o, err := wire.ParseObject(result)
	if err != nil {
		return
	}
	list, err := wire.ParseArray(o.Get("tools"))
	if err != nil {
		return
	}
	tools := map[string]toolFacts{}
	for _, raw := range list {
		tool, err := wire.ParseObject(raw)
		if err != nil {
			continue
		}
		name, _ := wire.String(tool.Get("name"))
		execution, _ := tool.Object("execution")
		support, _ := wire.String(execution.Get("taskSupport"))
		tools[name] = toolFacts{annotations: clone(tool.Get("annotations")), schema: schemaWithHeaders(tool.Get("inputSchema")), taskSupport: support}
	}
	_, more := wire.String(o.Get("nextCursor"))
	t.add(tools, cursor == nil, !more)
	t.learned()
}

func (t *toolbox) add(tools map[string]toolFacts, first, last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.tools) > maxTools {
		t.tools, t.first, t.last = map[string]toolFacts{}, false, false
	}
	maps.Copy(t.tools, tools)
	t.first, t.last = t.first || first, t.last || last
}

func (t *toolbox) isWhole() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first && t.last
}

// list is what is known of all tools, by name.
func (t *toolbox) list() []Tool {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Tool, 0, len(t.tools))
	for _, name := range slices.Sorted(maps.Keys(t.tools)) {
		f := t.tools[name]
		out = append(out, Tool{Name: name, Annotations: f.annotations, TaskSupport: f.taskSupport})
	}
	return out
}

func (t *toolbox) lists(tool string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.tools[tool]
	return ok
}

// note takes a notification in: when the list has changed, nothing is known any
// more.
func (t *toolbox) note(method string) {
	if method != wire.NoteTools {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tools, t.asked, t.first, t.last = map[string]toolFacts{}, time.Time{}, false, false
}

// maxTools bounds what an upstream that renames its tools can fill.
const maxTools = 10_000

func schemaWithHeaders(schema wire.Raw) wire.Raw {
	if headers, err := wire.ParamHeaders(schema); err != nil || len(headers) == 0 {
		return nil
	}
	return clone(schema)
}

// clone lets go of the large answer that raw is part of.
func clone(raw wire.Raw) wire.Raw { return append(wire.Raw(nil), raw...) }
