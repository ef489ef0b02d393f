package taskrun

import (
	"sync/atomic"
	"time"
)

// news is what there is to decide on: some of these.
type news uint32

const (
	changed news = 1 << iota // the call, its questions or its record: look at all of them
	advance                  // there is a newer message, or token
	tick                     // time alone may have brought something

	awake // somebody decides, and looks for news before he sleeps
)

// mailbox keeps news until it is decided on, by one at a time. While there is none,
// nobody needs to be there: a goroutine costs more than all else of a call that waits.
type mailbox struct{ news atomic.Uint32 }

// add reports whether nobody is awake: who brings the news is, from now on. What
// belongs to it lies ready by then.
func (m *mailbox) add(n news) (first bool) { return news(m.news.Or(uint32(n|awake)))&awake == 0 }

// take is for who is awake.
func (m *mailbox) take() news { return news(m.news.Swap(uint32(awake))) }

// sleep fails while there is news.
func (m *mailbox) sleep() bool { return m.news.CompareAndSwap(uint32(awake), 0) }

// tell has news decided on. It does not wait for that.
func (x *run) tell(n news) {
	if x.mail.add(n) {
		x.r.crew.run(x.follow)
	}
}

// wake tells that something has changed.
func (x *run) wake() { x.tell(changed) }

// keep has the record kept up to date in the background, until it or the call ends.
func (x *run) keep() {
	x.r.busy.enter()
	x.r.metrics.running.Inc()
	x.reread = time.Now().Add(x.r.opts.Reread)
	// The first look is soon: most calls that wait do so from their beginning.
	x.alarm = time.AfterFunc(x.nextLook(x.r.opts.ProgressEvery), func() { x.tell(tick) })
	if !x.mail.sleep() {
		x.r.crew.run(x.follow)
	}
}

// follow decides on news until there is none. A run that is over stays awake, so
// that nobody decides after that.
func (x *run) follow() {
	for !x.mail.sleep() {
		if !x.decide(x.mail.take()) {
			x.alarm.Stop()
			x.drop()
			x.r.metrics.running.Dec()
			x.r.busy.leave()
			return
		}
	}
}

// decide reports whether the run goes on.
func (x *run) decide(n news) bool {
	if n&changed != 0 && !x.review() {
		return false
	}
	if n&advance != 0 {
		x.showProgress()
	}
	return n&tick == 0 || x.look()
}

// review looks at all that may have changed.
func (x *run) review() bool {
	if closed(x.ended) {
		x.settle(x.orAgain(x.how))
		return false
	}
	for _, a := range x.takeAsks() {
		x.askClient(a)
	}
	x.answerOverdue()
	x.withdraw()
	return x.sync()
}

// look is for what time alone brings: the end of the record, another place in the
// queue, a change that nobody has told of.
func (x *run) look() bool {
	if !x.expires.IsZero() && !x.r.opts.Now().Before(x.expires) {
		x.expire()
		return false
	}
	if _, waits := x.flight.Ahead(); waits || x.placed {
		x.saveProgress()
	}
	if time.Until(x.reread) <= 0 {
		x.reread = time.Now().Add(x.r.opts.Reread)
		x.wake()
	}
	x.alarm.Reset(x.nextLook(x.r.opts.Recheck))
	return true
}

// nextLook is when there may be something to see again. A call that has had its
// turn waits for no other, so its place is looked at no more.
func (x *run) nextLook(place time.Duration) time.Duration {
	next := time.Until(x.reread)
	if x.placed || !x.hasTurn.Load() {
		next = min(next, place)
	}
	if !x.expires.IsZero() {
		next = min(next, x.expires.Sub(x.r.opts.Now()))
	}
	return max(next, time.Millisecond)
}
