package redisstore

import (
	"sync"
	"time"
)

// clock tells the server's time without asking: what the server said last, and
// what has passed here since. So neither a wrong clock here nor a jump of it
// makes a task expire early.
type clock struct {
	now func() time.Time

	mu     sync.Mutex
	server int64     // ms, when it was asked
	asked  time.Time // local
}

func (c *clock) sync(server int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.asked = server, c.now()
}

// millis is the server's time, in ms.
func (c *clock) millis() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server + c.now().Sub(c.asked).Milliseconds()
}
