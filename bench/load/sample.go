// Package load puts programs and functions under load, in turns, so that what
// the machine does meanwhile falls on all of them alike.
package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Sample is what one turn of a case has shown.
type Sample struct {
	Count    int           // of what was done
	Took     time.Duration // altogether
	P50, P99 time.Duration // of one
	CPU      time.Duration // used by the program under load; 0: not known
}

// PerSecond is the throughput.
func (s Sample) PerSecond() float64 { return float64(s.Count) / s.Took.Seconds() }

// Millis50 is P50 in milliseconds, Millis99 is P99.
func (s Sample) Millis50() float64 { return float64(s.P50) / float64(time.Millisecond) }

// Millis99 is P99 in milliseconds.
func (s Sample) Millis99() float64 { return float64(s.P99) / float64(time.Millisecond) }

// CPUSeconds is the processor time for 10,000 of what was done.
func (s Sample) CPUSeconds() float64 { return s.CPU.Seconds() / float64(s.Count) * 10_000 }

// Case is something that can be put under load for a while.
type Case struct {
	Name string
	Run  func(ctx context.Context, d time.Duration) (Sample, error)
}

// Samples are by case, in the order of the rounds.
type Samples map[string][]Sample

// Interleave gives each case a short turn to warm up, then one turn in each round.
func Interleave(ctx context.Context, cases []Case, rounds int, turn time.Duration) (Samples, error) {
	all := Samples{}
	for round := -1; round < rounds; round++ {
		for _, c := range cases {
			d := turn
			if round < 0 {
				d = turn / 2
			}
			s, err := c.Run(ctx, d)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			if s.Count == 0 {
				return nil, fmt.Errorf("%s: nothing was done in %v", c.Name, d)
			}
			if round >= 0 {
				all[c.Name] = append(all[c.Name], s)
			}
		}
	}
	return all, nil
}

// Median of a figure of a case over the rounds.
func (s Samples) Median(name string, figure func(Sample) float64) float64 {
	var values []float64
	for _, sample := range s[name] {
		values = append(values, figure(sample))
	}
	return median(values)
}

// Ratio is the median of what a case's figure is by another's in the same round.
func (s Samples) Ratio(name, by string, figure func(Sample) float64) float64 {
	var values []float64
	for i := range s[name] {
		values = append(values, figure(s[name][i])/figure(s[by][i]))
	}
	return median(values)
}

// Above is the median of how far a case's figure is above another's in the same
// round.
func (s Samples) Above(name, base string, figure func(Sample) float64) float64 {
	var values []float64
	for i := range s[name] {
		values = append(values, figure(s[name][i])-figure(s[base][i]))
	}
	return median(values)
}

func median(values []float64) float64 {
	slices.Sort(values)
	if n := len(values); n%2 == 0 && n > 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}

// Loop calls f from so many goroutines for d, from each at least once. An error
// ends it. Each has a context of its own, as requests have.
func Loop(ctx context.Context, callers int, d time.Duration, f func(context.Context) error) (Sample, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	took := make([][]time.Duration, callers)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range took {
		wg.Go(func() {
			own, cancel := context.WithCancel(ctx)
			defer cancel()
			for ctx.Err() == nil && (took[i] == nil || time.Since(start) < d) {
				began := time.Now()
				if err := f(own); err != nil {
					fail(err)
				}
				took[i] = append(took[i], time.Since(began))
			}
		})
	}
	wg.Wait()
	return Of(slices.Concat(took...), time.Since(start)), context.Cause(ctx)
}

// Of sums up how long each of what was done has taken, and all of it.
func Of(each []time.Duration, took time.Duration) Sample {
	slices.SortFunc(each, cmp.Compare)
	if len(each) == 0 {
		return Sample{Took: took}
	}
	return Sample{Count: len(each), Took: took, P50: each[len(each)/2], P99: each[len(each)*99/100]}
}
