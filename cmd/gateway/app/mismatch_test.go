package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// TestHeadersMustAgreeForEveryMethod: a request of any method with a header that
// differs from its body, byte by byte over TCP, is refused as a header mismatch,
// and nothing of it reaches the upstream.
func TestHeadersMustAgreeForEveryMethod(t *testing.T) {
	u := mcptest.NewModern(askingTools()...)
	g := start(t, "upstreams: [{name: u, url: \""+u.Start(t)+"\", era: modern}]\n", "rules: []\n")
	endpoint, err := url.Parse(g.Endpoints()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct{ method, member string }{
		{"tools/call", "name"}, {"prompts/get", "name"}, {"resources/read", "uri"},
		{"tasks/get", "taskId"}, {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"},
		{"tools/list", ""}, {"prompts/list", ""}, {"resources/list", ""}, {"resources/templates/list", ""}, {"completion/complete", ""},
		{"server/discover", ""}, {"subscriptions/listen", ""}, {"x/unknown", ""},
	} {
		agree := "MCP-Protocol-Version: 2026-07-28\nMcp-Method: " + m.method + "\nMcp-Name: target\n"
		if _, reply := sendRaw(t, endpoint.Host, agreeingBody(m.method, m.member), agree); strings.Contains(reply, "eader mismatch") {
			t.Errorf("%s: headers that agree were answered with %s", m.method, reply)
		}
		for name, header := range disagreeing(m.method, m.member) {
			t.Run(m.method+", "+name, func(t *testing.T) {
				before := len(u.Requests(m.method))
				status, reply := sendRaw(t, endpoint.Host, agreeingBody(m.method, m.member), header)
				if status != http.StatusBadRequest || !strings.Contains(reply, fmt.Sprintf(`"code":%d`, wire.CodeHeaderMismatch)) {
					t.Errorf("HTTP %d %s", status, reply)
				}
				if n := len(u.Requests(m.method)) - before; n != 0 {
					t.Errorf("%d requests have reached the upstream", n)
				}
			})
		}
	}
}

// disagreeing are headers, each of which says something else than the body, or says
// it twice.
func disagreeing(method, member string) map[string]string {
	const version = "MCP-Protocol-Version: 2026-07-28\n"
	named := ""
	if member != "" {
		named = "Mcp-Name: target\n"
	}
	all := map[string]string{
		"no version":           "Mcp-Method: " + method + "\n" + named,
		"other version":        "MCP-Protocol-Version: 2026-07-29\nMcp-Method: " + method + "\n" + named,
		"version twice":        version + version + "Mcp-Method: " + method + "\n" + named,
		"no method":            version + named,
		"other method":         version + "Mcp-Method: ping\n" + named,
		"method twice":         version + strings.Repeat("Mcp-Method: "+method+"\n", 2) + named,
		"method in capitals":   version + "Mcp-Method: " + strings.ToUpper(method) + "\n" + named,
		"method in two pieces": version + "Mcp-Method: " + method + ",\n" + named,
	}
	if member == "" {
		return all
	}
	right := version + "Mcp-Method: " + method + "\n"
	for what, value := range map[string]string{
		"other name": "tarjet", "name in capitals": "TARGET", "name with a space within": "tar get", "longer name": "target2",
		"other name in Base64": "=?base64?dGFyamV0?=", "broken Base64": "=?base64?dGFyZ2V0=?=", "raw UTF-8": "targét",
	} {
		all[what] = right + "Mcp-Name: " + value + "\n"
	}
	all["name twice"] = right + strings.Repeat("Mcp-Name: target\n", 2)
	if !strings.HasPrefix(method, "tasks/") { // where SDKs in use leave it out
		all["no name"] = right
	}
	return all
}

func agreeingBody(method, member string) string {
	params := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	if member != "" {
		params = fmt.Sprintf("%q:%q,", member, "target") + params
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params)
}

// sendRaw sends one request over a connection of its own.
func sendRaw(t *testing.T, address, body, header string) (status int, reply string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	head := fmt.Sprintf("POST /mcp HTTP/1.1\nHost: localhost\nContent-Type: application/json\nAccept: application/json\n%sContent-Length: %d\n\n", header, len(body))
	if _, err := io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n")+body); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}
