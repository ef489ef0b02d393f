package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"taskgate/bench/load"
	"taskgate/bench/page"
	"taskgate/bench/rig"
)

// proxy is one of those that are measured side by side.
type proxy struct {
	name    string
	start   func() (*rig.Process, error)
	path    string
	session bool // it speaks 2025-11-25 only
}

const (
	ours   = "**taskgate**"
	theirs = "ReverseProxy, tuned" // what a goal is measured by
)

func (l *lab) proxies() []proxy {
	return []proxy{
		{name: "direct, no proxy", start: l.backend, path: "/mcp"},
		{name: "nginx", start: l.nginx, path: "/mcp"},
		{name: "HAProxy", start: l.haproxy, path: "/mcp"},
		{name: "fasthttp proxy", start: l.fastHTTP, path: "/mcp"},
		{name: theirs, start: l.reverseProxy, path: "/mcp"},
		{name: ours, start: l.ourGateway, path: "/mcp"},
		{name: "tbxark/mcp-proxy", start: l.mcpProxyGo, path: "/bench/mcp", session: true},
		{name: "npm mcp-proxy", start: l.mcpProxyNode, path: "/mcp", session: true},
	}
}

// text makes the arguments of a request of about 300 bytes.
const text = `{"text":"the quick brown fox"}`

// wrk is a load of calls on a proxy. The first call must have a result.
func (l *lab) wrk(ctx context.Context, p proxy, conns int, requests func(url string) ([]*http.Request, error)) (load.Case, error) {
	server, err := p.start()
	if err != nil {
		return load.Case{}, err
	}
	all, err := whenReady(ctx, func() ([]*http.Request, error) { return requests("http://" + server.Addr + p.path) })
	if err != nil {
		return load.Case{}, fmt.Errorf("%s: %w", p.name, err)
	}
	dir, err := os.MkdirTemp(l.dir, "wrk-")
	if err != nil {
		return load.Case{}, err
	}
	return load.Case{Name: p.name, Run: load.Wrk{Dir: dir, Server: server, Requests: all, Conns: conns}.Run}, nil
}

// whenReady makes requests, the first of which must have a result. Some proxies
// listen before they can answer.
func whenReady(ctx context.Context, requests func() ([]*http.Request, error)) (all []*http.Request, err error) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if all, err = requests(); err == nil {
			_, err = result(ctx, all[0])
		}
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return all, err
		}
	}
}

// echoes are quick calls in the proxy's own version of the protocol.
func (p proxy) echoes(ctx context.Context) func(url string) ([]*http.Request, error) {
	return func(url string) ([]*http.Request, error) {
		if p.session {
			return oldCalls(ctx, url, "echo", text)
		}
		return calls(url, "echo", text, distinct), nil
	}
}

func passThrough(ctx context.Context, l *lab) (string, error) {
	table := page.NewTable("proxy", "connections", "requests/s", "p50 ms", "p99 ms", "CPU s per 10,000", "RSS MB")
	goals := page.NewTable("goal", "1 connection", "16", "64")
	rows := map[string][]string{}
	for _, conns := range []int{1, 16, 64} {
		var cases []load.Case
		for _, p := range l.proxies() {
			c, err := l.wrk(ctx, p, conns, p.echoes(ctx))
			if err != nil {
				return "", err
			}
			cases = append(cases, c)
		}
		s, err := load.Interleave(ctx, cases, l.opts.rounds, l.opts.turn)
		if err != nil {
			return "", err
		}
		for _, p := range l.proxies() {
			server, _ := p.start() // it runs
			table.Add(p.name, fmt.Sprint(conns), fmt.Sprintf("%.0f", s.Median(p.name, load.Sample.PerSecond)),
				fmt.Sprintf("%.3f", s.Median(p.name, load.Sample.Millis50)), fmt.Sprintf("%.2f", s.Median(p.name, load.Sample.Millis99)),
				fmt.Sprintf("%.2f", s.Median(p.name, load.Sample.CPUSeconds)), fmt.Sprintf("%.0f", float64(server.RSS())/1e6))
		}
		for goal, cell := range passThroughGoals(s, conns) {
			rows[goal] = append(rows[goal], cell)
		}
	}
	for _, goal := range []string{goalThroughput, goalPeer, goalCPU, goalAdded, goalP99} {
		goals.Add(append([]string{goal}, rows[goal]...)...)
	}
	return goals.String() + "\n" + table.String(), nil
}

const (
	goalThroughput = "throughput ≥ 1.25 × tuned ReverseProxy"
	goalPeer       = "throughput ≥ 3 × tbxark/mcp-proxy"
	goalCPU        = "CPU ≤ 0.8 × tuned ReverseProxy"
	goalAdded      = "added p50 ≤ 1.0 × tuned ReverseProxy's, at 1 connection"
	goalP99        = "p99 ≤ 1.0 × tuned ReverseProxy's, at 64 connections"
)

func passThroughGoals(s load.Samples, conns int) map[string]string {
	cells := map[string]string{
		goalThroughput: atLeast(1.25, s.Ratio(ours, theirs, load.Sample.PerSecond)),
		goalPeer:       atLeast(3, s.Ratio(ours, "tbxark/mcp-proxy", load.Sample.PerSecond)),
		goalCPU:        atMost(0.8, s.Ratio(ours, theirs, load.Sample.CPUSeconds)),
		goalAdded:      "", goalP99: "",
	}
	switch conns {
	case 1:
		added := s.Above(ours, "direct, no proxy", load.Sample.Millis50)
		cells[goalAdded] = atMost(1, added/s.Above(theirs, "direct, no proxy", load.Sample.Millis50))
	case 64:
		cells[goalP99] = atMost(1, s.Ratio(ours, theirs, load.Sample.Millis99))
	}
	return cells
}

func atLeast(goal, got float64) string { return verdict(got >= goal, got) }

func atMost(goal, got float64) string { return verdict(got <= goal, got) }

func verdict(met bool, got float64) string {
	mark := "✗"
	if met {
		mark = "✓"
	}
	return strings.TrimSpace(fmt.Sprintf("%.2f %s", got, mark))
}
