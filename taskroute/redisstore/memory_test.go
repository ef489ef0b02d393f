package redisstore_test

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"taskgate/internal/redistest"
	"taskgate/taskroute"
)

// TestMemoryOfATask is what Redis needs for a task beside its parts, and what that
// is made of (go test -v).
func TestMemoryOfATask(t *testing.T) {
	const tasks, most = 4096, 800
	server := redistest.Start(t)
	s := open(t, server.URL(), "memory")
	usage := func(key string) int { return number(t, server.CLI(t, "memory", "usage", key, "samples", "0")) }
	var d taskroute.Doc
	create := func() {
		d = doc("r1")
		if err := s.Create(t.Context(), d, rand.Text()[:13]); err != nil {
			t.Fatal(err)
		}
	}
	create()
	before := usedMemory(t, server)
	for range tasks {
		create()
	}
	each := (usedMemory(t, server) - before) / tasks
	t.Logf("for a task with %d bytes in two parts: %d", d.Size(), each)
	t.Logf("record: %d, tombstone: %d", usage("memory:task:{"+d.ID+"}"), usage("memory:tomb:{"+d.ID+"}"))
	t.Logf("among those of its holder: %d, and of its owner: %d", usage("memory:{holders}:held:r1")/tasks, usage("memory:own:{"+d.Owner+"}:open")/tasks)
	if beside := each - int(d.Size()); beside > most {
		t.Errorf("a task needs %d bytes beside its parts, want %d at most", beside, most)
	}
}

// usedMemory is that of what is stored: less what waits to be written to the file,
// which is much when the disk is slow, and what connections need.
func usedMemory(t *testing.T, server *redistest.Server) int {
	t.Helper()
	info := server.CLI(t, "info", "memory")
	return infoNumber(t, info, "used_memory") - infoNumber(t, info, "mem_aof_buffer") - infoNumber(t, info, "mem_clients_normal")
}

// infoNumber is a number that INFO tells.
func infoNumber(t *testing.T, info, name string) int {
	t.Helper()
	_, rest, found := strings.Cut(info, "\n"+name+":")
	if !found {
		t.Fatalf("INFO has no %s", name)
	}
	text, _, _ := strings.Cut(rest, "\r")
	return number(t, text)
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(fmt.Errorf("redis says %q: %w", text, err))
	}
	return n
}
