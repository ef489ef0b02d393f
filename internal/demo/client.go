package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tmaxmax/go-sse"

	"taskgate/wire"
)

// client is the least that a client of 2026-07-28 with tasks needs: every
// request is a POST of its own and says what its sender can do.
type client struct {
	url    string
	http   *http.Client
	lastID int
}

// object is a JSON object under construction.
type object map[string]any

// reply is a result, or as much of one as the demo looks at.
type reply struct {
	ResultType string    `json:"resultType"`
	Content    []content `json:"content"`

	TaskID         string              `json:"taskId"`
	Status         string              `json:"status"`
	StatusMessage  string              `json:"statusMessage"`
	TTLMs          int64               `json:"ttlMs"`
	PollIntervalMs int64               `json:"pollIntervalMs"`
	InputRequests  map[string]question `json:"inputRequests"`
	Result         json.RawMessage     `json:"result"`
	Error          *wire.Error         `json:"error"`

	took time.Duration
}

type content struct {
	Text string `json:"text"`
}

type question struct {
	Method string `json:"method"`
	Params struct {
		Message string `json:"message"`
	} `json:"params"`
}

// pollAfter is how long the server wants to be left alone.
func (r reply) pollAfter() time.Duration { return time.Duration(r.PollIntervalMs) * time.Millisecond }

// keptFor is how long the server keeps the task from its creation.
func (r reply) keptFor() string {
	return fmt.Sprintf("%.0f minutes", (time.Duration(r.TTLMs) * time.Millisecond).Minutes())
}

func (r reply) text() string {
	var parts []string
	for _, c := range r.Content {
		parts = append(parts, c.Text)
	}
	return strings.Join(parts, "\n")
}

// send makes one request. name is the tool or the task that it is about, which
// the header Mcp-Name repeats. An error of the protocol is a *wire.Error.
func (c *client) send(ctx context.Context, method, name string, params object) (reply, error) {
	began := time.Now()
	c.lastID++
	params["_meta"] = meta()
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": c.lastID, "method": method, "params": params})
	if err != nil {
		return reply{}, fmt.Errorf("%s: %w", method, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return reply{}, fmt.Errorf("%s: %w", method, err)
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		wire.HeaderVersion: {wire.Version}, wire.HeaderMethod: {method}, wire.HeaderName: {name},
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{}, fmt.Errorf("%s: %w", method, err)
	}
	defer resp.Body.Close()
	r, err := read(resp)
	if err != nil {
		return reply{}, fmt.Errorf("%s: %w", method, err)
	}
	r.took = time.Since(began)
	return r, nil
}

// meta is what every request says of its sender (basic/index#meta). The tasks
// extension is declared here.
func meta() object {
	return object{
		wire.MetaVersion:    wire.Version,
		wire.MetaClientInfo: object{"name": "taskgate-demo", "version": "1.0.0"},
		wire.MetaCapabilities: object{
			"elicitation": object{"form": object{}},
			"extensions":  object{wire.TasksExtension: object{}},
		},
	}
}

// response is a JSON-RPC response. A notification on the way has neither.
type response struct {
	Result json.RawMessage `json:"result"`
	Error  *wire.Error     `json:"error"`
}

// read takes the response from a JSON body or from the end of a stream.
func read(resp *http.Response) (reply, error) {
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		var r response
		if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
			return reply{}, fmt.Errorf("HTTP %d: %w", resp.StatusCode, err)
		}
		return r.reply()
	}
	for event, err := range sse.Read(resp.Body, nil) {
		if err != nil {
			return reply{}, err
		}
		var r response
		if err := json.Unmarshal([]byte(event.Data), &r); err != nil {
			return reply{}, err
		}
		if r.Result != nil || r.Error != nil {
			return r.reply()
		}
	}
	return reply{}, errors.New("the stream ended without a response")
}

func (r response) reply() (out reply, err error) {
	if r.Error != nil {
		return out, r.Error
	}
	err = json.Unmarshal(r.Result, &out)
	return out, err
}
