package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// patience is how long a client waits for one answer, some longer than a fault
// and some not.
const patience = 3 * time.Second

// client works with all replicas and puts down what it does and sees. Errors are
// part of its life: what matters is what it was promised before.
type client struct {
	fleet  *fleet
	name   string
	random *rand.Rand
	// conns are its connections, by era and replica.
	conns [][]*mcptest.Client
}

func newClient(t *testing.T, f *fleet, name string, random *rand.Rand) *client {
	c := &client{fleet: f, name: name, random: random, conns: make([][]*mcptest.Client, len(f.upstreams))}
	for era := range f.upstreams {
		for _, r := range f.replicas {
			conn := mcptest.NewClient(r.urls[era], mcptest.TasksAndInput)
			t.Cleanup(conn.Close)
			c.conns[era] = append(c.conns[era], conn)
		}
	}
	return c
}

// any is a connection to some replica.
func (c *client) any(era int) *mcptest.Client {
	return c.conns[era][c.random.IntN(len(c.conns[era]))]
}

// handle is a task that a client was promised.
type handle struct {
	era      int
	call, id string
}

// work calls tools until ctx ends, and returns the handles it was given.
func (c *client) work(ctx context.Context) (handles []handle) {
	for n := 0; ctx.Err() == nil; n++ {
		h, ok := c.begin(ctx, fmt.Sprintf("%s-%d", c.name, n))
		if !ok {
			c.rest(ctx)
			continue
		}
		handles = append(handles, h)
		cancels := c.random.IntN(8) == 0
		for range c.random.IntN(30) { // some are left alone, in whatever status
			if status, _ := c.look(ctx, c.any(h.era), h); terminal(status) {
				break
			}
			if cancels {
				c.briefly(ctx, func(ctx context.Context) { _, _ = c.any(h.era).Cancel(ctx, h.id) })
			}
			c.rest(ctx)
		}
	}
	return handles
}

func (c *client) rest(ctx context.Context) {
	select {
	case <-time.After(time.Duration(20+c.random.IntN(200)) * time.Millisecond):
	case <-ctx.Done():
	}
}

func (c *client) briefly(ctx context.Context, f func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f(ctx)
}

// begin calls some tool; ok when that has become a task.
func (c *client) begin(ctx context.Context, call string) (h handle, ok bool) {
	h = handle{era: c.random.IntN(len(c.conns)), call: call}
	tool := []string{"slow", "slow", "again", "ask"}[c.random.IntN(4)]
	arguments := fmt.Sprintf(`{"key":%q,"ms":%d}`, call, c.random.Int64N(maxWork.Milliseconds()))
	began := time.Now()
	c.fleet.history.Add(Event{Kind: Called, Call: call, Allowed: attempts(tool)})
	c.briefly(ctx, func(ctx context.Context) {
		reply, err := c.any(h.era).CallTool(ctx, tool, arguments)
		switch {
		case err != nil || reply.Message.Result == nil:
		case reply.Type() == wire.ResultTask:
			h.id, ok = reply.TaskID(), true
			c.fleet.history.Add(Event{Kind: Acked, Began: began, Call: call, Task: h.id})
		case reply.Type() == wire.ResultComplete: // and not a question, as without a store
			c.fleet.history.Add(Event{Kind: Answered, Began: began, Call: call, Body: payload(reply.Result())})
		}
	})
	return h, ok
}

// look reads a task and answers what it asks; "" is the status when there was
// no answer.
func (c *client) look(ctx context.Context, conn *mcptest.Client, h handle) (status string, err error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	reply, err := conn.Task(ctx, h.id)
	if err != nil {
		return "", err
	}
	if e := reply.Err(); e != nil {
		if e.Code == wire.CodeInvalidParams {
			c.fleet.history.Add(Event{Kind: Unknown, Began: began, Call: h.call, Task: h.id})
		}
		return "", e
	}
	task := reply.Result()
	status, _ = wire.String(task.Get("status"))
	body := string(task.Get("error"))
	if result, ok := task.Object("result"); ok {
		body = payload(result)
	}
	c.fleet.history.Add(Event{Kind: Saw, Began: began, Call: h.call, Task: h.id, Status: status, Body: body})
	if status == wire.StatusInputRequired {
		c.answer(ctx, h, task)
	}
	return status, nil
}

// answer gives one answer, or two different ones at the same time.
func (c *client) answer(ctx context.Context, h handle, task wire.Object) {
	asked, _ := wire.ParseObject(task.Get("inputRequests"))
	var at sync.WaitGroup
	for range 1 + c.random.IntN(2) {
		conn, value := c.any(h.era), c.random.Uint64()
		at.Go(func() {
			var answers wire.Object
			for _, question := range asked {
				body := mcptest.Accept(fmt.Sprintf(`{"answer":"%d"}`, value))
				c.fleet.history.Add(Event{Kind: Responded, Call: h.call, Body: string(body)})
				answers = answers.With(question.Name, body)
			}
			_, _ = conn.Update(ctx, h.id, answers) // what comes of it is seen next
		})
	}
	at.Wait()
}
