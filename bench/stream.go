package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"
)

// stream is an open subscriptions/listen.
type stream struct {
	conn  net.Conn
	lines *bufio.Reader
}

// listen opens a stream on tasks and returns once it is acknowledged. The small
// buffer is the client's, which may have many.
func listen(ctx context.Context, addr string, tasks []string) (*stream, error) {
	ids, err := json.Marshal(tasks)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &stream{conn, bufio.NewReaderSize(conn, 4<<10)}
	if err := modern("http://"+addr+"/mcp", "subscriptions/listen", "", 1, fmt.Sprintf(`"notifications":{"taskIds":%s}`, ids)).Write(conn); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(s.lines, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("subscriptions/listen: HTTP %d", resp.StatusCode)
	}
	s.lines = bufio.NewReaderSize(resp.Body, 4<<10)
	event, err := s.next()
	if err == nil && event.Method != "notifications/subscriptions/acknowledged" {
		err = fmt.Errorf("subscriptions/listen began with %q", event.Method)
	}
	return s, err
}

// event is a notification, as far as it is looked at.
type event struct {
	Method string
	Params struct {
		TaskID string
		Status string
		Result struct{ Content []struct{ Text string } }
	}
	at time.Time // when it came
}

// next is the next notification.
func (s *stream) next() (e event, err error) {
	for {
		line, err := s.lines.ReadBytes('\n')
		if err != nil {
			return event{}, err
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			e.at = time.Now()
			return e, json.Unmarshal(data, &e)
		}
	}
}
