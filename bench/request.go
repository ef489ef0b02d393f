package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// meta is what each modern request says of itself.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// distinct is how many requests, each with an id of its own, a load sends round
// and round: more than are ever in flight.
const distinct = 512

// modern is a request of 2026-07-28. name is what Mcp-Name repeats.
func modern(url, method, name string, id int, members string) *http.Request {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s,%s}}`, id, method, members, meta)
	r := post(url, body)
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	r.Header.Set("Mcp-Name", name)
	r.Header.Set("X-Api-Key", key)
	return r
}

func post(url, body string) *http.Request {
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		panic(err) // the URL is one of ours
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return r
}

// call is a tools/call with the given arguments.
func call(url, tool, arguments string, id int) *http.Request {
	return modern(url, "tools/call", tool, id, fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments))
}

// calls are the requests of a load.
func calls(url, tool, arguments string, n int) []*http.Request {
	var all []*http.Request
	for id := range n {
		all = append(all, call(url, tool, arguments, id+1))
	}
	return all
}

// oldCalls are those of a session, opened for them, of a version that all who have
// sessions speak.
func oldCalls(ctx context.Context, url, tool, arguments string) ([]*http.Request, error) {
	open := post(url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	resp, err := http.DefaultClient.Do(open.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	session := resp.Header.Get("Mcp-Session-Id")
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("initialize: HTTP %d, error %w", resp.StatusCode, err)
	}
	var all []*http.Request
	for id := range distinct {
		r := post(url, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id+1, tool, arguments))
		r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		all = append(all, r)
	}
	return all, nil
}

// result sends one request and returns its result; an answer that has none is an
// error.
func result(ctx context.Context, r *http.Request) (json.RawMessage, error) {
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	r = r.Clone(ctx)
	r.Body = body
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if _, data, ok := bytes.Cut(text, []byte("data: ")); ok { // the answer is an event
		text = data
	}
	var m struct{ Result, Error json.RawMessage }
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&m); err != nil || m.Result == nil {
		return nil, fmt.Errorf("%s: HTTP %d: %.300s", r.URL, resp.StatusCode, text)
	}
	return m.Result, nil
}
