package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"testing"
)

// FreePort returns a port of 127.0.0.1 that nobody listens on. Somebody may take
// it before it is used: who starts a server on it must look whether that server
// is alive.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("free port: %v", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// GoSDKServer starts conformance/everything-server of the Go SDK and returns its
// URL. With stateless it speaks 2026-07-28; without, only what opens with
// initialize.
func GoSDKServer(t testing.TB, stateless bool) string {
	t.Helper()
	program, err := exec.LookPath("everything-server")
	if err != nil {
		t.Fatalf("conformance server of the Go SDK (make deps installs it): %v", err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	p := StartProcess(t, exec.Command(program, "-http", addr, fmt.Sprintf("-stateless=%t", stateless)))
	url := "http://" + addr + "/"
	p.WaitAnswer(t, url)
	return url
}

// WaitAnswer waits until the program answers HTTP at url, whatever it says.
func (p *Process) WaitAnswer(t testing.TB, url string) {
	t.Helper()
	Eventually(t, p.name+" answers", func() bool {
		if !p.Alive() {
			t.Fatalf("%s has ended before it answered", p.name)
		}
		resp, err := http.Get(url)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return true
	})
}
