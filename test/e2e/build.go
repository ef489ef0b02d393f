package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// binaryVar names the built program to the tests of a package; it may also be
// set from outside, to test a program that was built elsewhere.
const binaryVar = "TASKGATE_BINARY"

// Main builds the gateway once for all tests of a package and runs them. It is
// to be called by TestMain, which exits with the code.
func Main(m *testing.M) int {
	if os.Getenv(binaryVar) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "gateway-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "folder for the program:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "gateway")
	if err := build(binary); err != nil {
		fmt.Fprintln(os.Stderr, "build the gateway:", err)
		return 1
	}
	os.Setenv(binaryVar, binary)
	return m.Run()
}

// build makes the program, with the race detector when the tests have it.
func build(binary string) error {
	args := []string{"build", "-o", binary}
	if raceDetector() {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "taskgate/cmd/gateway")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return true
		}
	}
	return false
}
