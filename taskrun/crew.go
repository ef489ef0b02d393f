package taskrun

import "time"

// crew runs functions, each in a goroutine to itself. One that is done waits for
// another function a while: a call goes deep, and to grow the stack of a new
// goroutine for each costs a twentieth of what a quick one does.
type crew struct {
	next chan func()
	over <-chan struct{} // closed when nobody is to wait any more
}

// rest is how long a goroutine waits.
const rest = time.Second

// run runs f, and does not wait for it.
func (c crew) run(f func()) {
	select {
	case c.next <- f:
	default:
		go c.work(f)
	}
}

func (c crew) work(f func()) {
	enough := time.NewTimer(rest)
	defer enough.Stop()
	for f != nil {
		f()
		f = nil // it holds on to a whole call
		enough.Reset(rest)
		select {
		case f = <-c.next:
		case <-enough.C:
		case <-c.over:
		}
	}
}
