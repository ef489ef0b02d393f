package policy

import (
	"math"
	"sync"
	"time"
)

// Pace is what is known of how long a tool takes at its upstream.
type Pace struct {
	Calls int           // measured of late; 0: nothing is known
	Quick time.Duration // one in ten takes less
	Usual time.Duration // every other
	Slow  time.Duration // nine in ten
}

// enough is how many calls it takes to believe what was measured.
const enough = 5

// Pacer learns the pace of tools from their calls. It keeps it for this process
// alone: what one replica has not seen costs a client a wait, no more.
type Pacer struct {
	mu       sync.Mutex
	sketches map[memoKey]*sketch
}

// NewPacer returns a Pacer that knows nothing yet.
func NewPacer() *Pacer { return &Pacer{sketches: map[memoKey]*sketch{}} }

// Observe notes that a call took so long.
func (p *Pacer) Observe(upstream, tool string, took time.Duration) {
	if len(upstream)+len(tool) > memoNameBytes {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := memoKey{upstream, tool}
	s := p.sketches[key]
	if s == nil {
		if len(p.sketches) >= memoEntries { // as a memo does
			clear(p.sketches)
		}
		s = new(sketch)
		p.sketches[key] = s
	}
	s.add(took)
}

// Pace of a tool.
func (p *Pacer) Pace(upstream, tool string) Pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sketches[memoKey{upstream, tool}]
	if s == nil {
		return Pace{}
	}
	return Pace{Calls: s.total, Quick: s.quantile(0.1), Usual: s.quantile(0.5), Slow: s.quantile(0.9)}
}

// Len is how many tools something is known of.
func (p *Pacer) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sketches)
}

// sketch counts durations in buckets, each up to the root of two times the one
// before. Once it has seen many it halves all counts, so that the old ones fade.
type sketch struct {
	counts [buckets]int
	total  int
}

const (
	buckets   = 48
	firstEdge = 5 * time.Millisecond // the last is over 16 hours
	manyCalls = 64
)

func edge(i int) time.Duration {
	return time.Duration(float64(firstEdge) * math.Pow(2, float64(i)/2))
}

func (s *sketch) add(took time.Duration) {
	i := 0
	if took > firstEdge {
		i = min(int(math.Ceil(2*math.Log2(float64(took)/float64(firstEdge)))), buckets-1)
	}
	s.counts[i]++
	if s.total++; s.total >= manyCalls {
		s.fade()
	}
}

func (s *sketch) fade() {
	s.total = 0
	for i := range s.counts {
		s.counts[i] /= 2
		s.total += s.counts[i]
	}
}

// quantile is the upper edge of the bucket that the share q falls into.
func (s *sketch) quantile(q float64) time.Duration {
	rest := q * float64(s.total)
	for i, n := range s.counts {
		if rest -= float64(n); rest <= 0 && n > 0 {
			return edge(i)
		}
	}
	return edge(buckets - 1)
}
