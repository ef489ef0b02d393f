package faults

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"taskgate/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

// number reads a whole number from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// newRandom is a generator of its own for each part of a schedule.
func newRandom(seed, part uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, part)) }
