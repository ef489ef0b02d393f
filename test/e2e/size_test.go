package e2e

import (
	"bytes"
	"os"
	"testing"
)

// TestUnusedCommandsAreNotLinked: one call of reflect's Method or MethodByName with
// a name that is made as the program runs, wherever in a library, and the linker
// keeps every exported method of every type: a third of the program.
func TestUnusedCommandsAreNotLinked(t *testing.T) {
	program, err := os.ReadFile(os.Getenv(binaryVar))
	if err != nil {
		t.Fatal(err)
	}
	const commands = "github.com/redis/go-redis/v9.cmdable."
	for name, want := range map[string]bool{"EvalSha": true, "GeoSearchStore": false, "XAutoClaim": false} {
		if got := bytes.Contains(program, []byte(commands+name)); got != want {
			t.Errorf("%s%s is in the program: %t, want %t (go build -ldflags=-dumpdep says what needs it: look for <ReflectMethod>)", commands, name, got, want)
		}
	}
}
