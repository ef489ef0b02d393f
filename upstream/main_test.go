package upstream

import (
	"os"
	"testing"

	"taskgate/internal/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.MainOnStdio()
	os.Exit(m.Run())
}
