package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Nginx starts nginx in front of gateways, which it tries in order, and returns
// the URL of the endpoint behind it. Its time-outs are its defaults (60 s between
// two reads), but for what the given directives say.
func Nginx(t testing.TB, directives string, gateways ...*Gateway) (url string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		t.Fatalf("nginx (make deps installs it): %v", err)
	}
	dir, addr := t.TempDir(), fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, []byte(nginxConf(dir, addr, directives, gateways)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := StartProcess(t, exec.Command(program, "-p", dir, "-c", conf, "-e", "stderr"))
	p.WaitAnswer(t, "http://"+addr+"/")
	return "http://" + addr + "/mcp"
}

// nginxConf is for a single process, which is ended by its pid and writes in dir
// alone.
func nginxConf(dir, addr, directives string, gateways []*Gateway) string {
	var b, temp strings.Builder
	for i, g := range gateways {
		backup := ""
		if i > 0 {
			backup = " backup"
		}
		fmt.Fprintf(&b, "    server %s%s;\n", strings.TrimSuffix(strings.TrimPrefix(g.Endpoint, "http://"), "/mcp"), backup)
	}
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temp, "  %s_temp_path %s;\n", kind, filepath.Join(dir, kind))
	}
	return fmt.Sprintf(`daemon off;
master_process off;
pid %s;
error_log stderr;
events {}
http {
  access_log off;
%s  upstream gateways {
%s  }
  server {
    listen %s;
    location / {
      proxy_pass http://gateways;
      proxy_set_header Host $host;
      %s
    }
  }
}
`, filepath.Join(dir, "pid"), temp.String(), b.String(), addr, directives)
}
