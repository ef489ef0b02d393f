package redistest_test

import (
	"testing"

	"taskgate/internal/redistest"
)

func TestKillAndRestartKeepTheData(t *testing.T) {
	s := redistest.Start(t)
	if got := s.CLI(t, "set", "key", "value"); got != "OK" {
		t.Fatalf("set: %s", got)
	}
	s.Kill(t)
	s.Restart(t)
	if got := s.CLI(t, "get", "key"); got != "value" {
		t.Fatalf("get after the restart: %q", got)
	}
}

func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t)
	for _, key := range []string{"a", "b", "c", "d"} {
		if got := c.Masters[0].CLI(t, "-c", "set", key, "value"); got != "OK" {
			t.Fatalf("set %s: %s", key, got)
		}
	}
}
