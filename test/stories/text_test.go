package stories

import (
	"fmt"
	"mime"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// request is one as a story writes it: the method, then lines of "name: value",
// an empty line, and the params. A name in capitals is that of a header.
type request struct {
	method  string
	params  string
	until   string // repeat it until the answer contains this
	goesOn  bool   // do not wait for the answer
	options []mcptest.Option
}

func readRequest(t *testing.T, text string) request {
	head, params, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	r := request{method: lines[0], params: strings.TrimSpace(params)}
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case !ok:
			t.Fatalf("%q is no header of a request", line)
		case name == "declares":
			r.options = append(r.options, mcptest.WithCapabilities(declared(t, value)))
		case name == "until":
			r.until = value
		case name == "notification":
			r.options = append(r.options, mcptest.WithID(nil))
		case name == "meanwhile":
			r.goesOn = true
		case name == "progressToken":
			r.options = append(r.options, mcptest.WithProgress(wire.Raw(value)))
		case name == "id":
			r.options = append(r.options, mcptest.WithID(wire.Raw(value)))
		case name == "logLevel":
			r.options = append(r.options, mcptest.WithMeta(wire.MetaLogLevel, wire.Raw(value)))
		case value == "":
			r.options = append(r.options, mcptest.WithHeader(name))
		default:
			r.options = append(r.options, mcptest.WithHeader(name, value))
		}
	}
	return r
}

// declared are the capabilities that a story names.
func declared(t *testing.T, list string) string {
	var o wire.Object
	for name := range strings.SplitSeq(list, ", ") {
		switch name {
		case "tasks":
			o = o.With("extensions", wire.Raw(`{"io.modelcontextprotocol/tasks":{}}`))
		case "form and url":
			o = o.With("elicitation", wire.Raw(`{"form":{},"url":{}}`))
		case "elicitation", "sampling", "roots":
			o = o.With(name, wire.Raw(`{}`))
		case "the tasks of 2025-11-25":
			o = o.With("tasks", wire.Raw(`{"requests":{"tools":{"call":{}}}}`))
		default:
			t.Fatalf("what is it to declare %q?", name)
		}
	}
	return string(o.Bytes())
}

// shown is an answer with its status, its content type and its messages but for
// the first, of which the story has told already.
func shown(r mcptest.Reply, told int) string {
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var b strings.Builder
	b.WriteString(strings.TrimSpace(fmt.Sprint(r.Status, " ", mediaType)) + "\n")
	if retry := r.Header.Get("Retry-After"); retry != "" {
		fmt.Fprintf(&b, "Retry-After: %s\n", retry)
	}
	for _, m := range r.Notifications[told:] {
		fmt.Fprintf(&b, "%s\n", m.Bytes())
	}
	if r.Message.ID != nil {
		fmt.Fprintf(&b, "%s\n", r.Message.Bytes())
	}
	return b.String()
}

// names stand for what is another each time: "$task1" for the first task id.
type names struct {
	values []string // in pairs, as strings.NewReplacer takes them
	count  map[string]int
}

var (
	volatile = regexp.MustCompile(`"(taskId|requestState)":"([^"]+)"`)
	moment   = regexp.MustCompile(`"(createdAt|lastUpdatedAt)":"[^"]*"`)
	stream   = regexp.MustCompile(`stream-\d+/`)
	ownID    = regexp.MustCompile(`"(id|progressToken|requestId)":(?:\d+|"[A-Z2-7]{8}-\d+")(,"method|[,}])`)
)

// hide puts names in the place of what is volatile.
func (n *names) hide(text string) string {
	for _, m := range volatile.FindAllStringSubmatch(text, -1) {
		if !strings.HasPrefix(m[2], "their-") { // the upstream's own
			n.name(map[string]string{"taskId": "$task", "requestState": "$state"}[m[1]], m[2])
		}
	}
	text = strings.NewReplacer(n.values...).Replace(text)
	text = stream.ReplaceAllString(text, "stream-$$n/")
	text = moment.ReplaceAllString(text, `"$1":"$$time"`)
	return ownID.ReplaceAllString(text, `"$1":"$$n"$2`)
}

// restore undoes hide for the text of a request.
func (n *names) restore(text string) string {
	var pairs []string
	for i := 0; i < len(n.values); i += 2 {
		pairs = append(pairs, n.values[i+1], n.values[i])
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func (n *names) name(prefix, value string) {
	for i := 0; i < len(n.values); i += 2 {
		if n.values[i] == value || n.values[i+1] == value {
			return
		}
	}
	if n.count == nil {
		n.count = map[string]int{}
	}
	n.count[prefix]++
	n.values = append(n.values, value, prefix+strconv.Itoa(n.count[prefix]))
}
