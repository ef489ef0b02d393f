package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// message is what is looked at of a request.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name            string
		ProtocolVersion string
		Arguments       struct{ Ms int }
	}
}

const (
	serverInfo = `"serverInfo":{"name":"bench","version":"1"}`
	modernInfo = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","version":"1"}}}`
	legacyInfo = `{"protocolVersion":%q,"capabilities":{"tools":{}},` + serverInfo + `}`
)

var (
	tools = toolList("echo", "wait", "large", "sink")
	quick = strings.Repeat("quick ", 30)    // for an answer of about 300 bytes
	kilo  = strings.Repeat("result  ", 128) // 1 KB
	mega  = strings.Repeat("much too much   ", 64<<10)
)

func toolList(names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
	}
	return `{"resultType":"complete","tools":[` + strings.Join(list, ",") + `]}`
}

// firstID finds the id of a message whose rest is too long to be read for it.
var firstID = regexp.MustCompile(`^[^}]*?"id":\s*(\d+|"[^"]*")`)

const long = 64 << 10 // bytes

// answer is the response to a message; nil when it wants none.
func answer(ctx context.Context, body []byte) []byte {
	var m message
	if len(body) > long {
		m.Method, m.Params.Name = "tools/call", "sink"
		if found := firstID.FindSubmatch(body[:long]); found != nil {
			m.ID = found[1]
		}
	} else if err := json.Unmarshal(body, &m); err != nil {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":%s}}`, strconv.Quote(err.Error()))
	}
	if m.ID == nil {
		return nil
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, outcome(ctx, m))
}

func outcome(ctx context.Context, m message) string {
	switch m.Method {
	case "initialize":
		return fmt.Sprintf(`"result":`+legacyInfo, m.Params.ProtocolVersion)
	case "server/discover":
		return `"result":` + modernInfo
	case "tools/list":
		return `"result":` + tools
	case "tools/call":
		return `"result":{"resultType":"complete","content":[{"type":"text","text":"` + call(ctx, m) + `"}],"isError":false}`
	case "ping":
		return `"result":{}`
	}
	return `"error":{"code":-32601,"message":"Method not found"}`
}

// call runs a tool. The text of wait begins with when it was answered, in ns.
func call(ctx context.Context, m message) string {
	switch m.Params.Name {
	case "wait":
		select {
		case <-time.After(time.Duration(m.Params.Arguments.Ms) * time.Millisecond):
		case <-ctx.Done():
		}
		return strconv.FormatInt(time.Now().UnixNano(), 10) + " " + kilo
	case "large":
		return mega
	}
	return quick
}
