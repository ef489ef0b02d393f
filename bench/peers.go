package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"taskgate/bench/rig"
)

func (l *lab) nginx() (*rig.Process, error) {
	return l.behind("nginx", func(addr, upstream string) (string, []string, error) {
		conf, err := l.write("nginx.conf", fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log stderr;
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_requests 100000000;
  client_body_temp_path %[1]s/client_body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  client_max_body_size 8m;
  client_body_buffer_size 2m;
  upstream backend {
    server %[3]s;
    keepalive 256;
    keepalive_requests 100000000;
  }
  server {
    listen %[2]s;
    location / {
      proxy_pass http://backend;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }
  }
}
`, l.dir, addr, upstream))
		return "nginx", []string{"-p", l.dir, "-c", conf, "-e", "stderr"}, err
	})
}

func (l *lab) haproxy() (*rig.Process, error) {
	return l.behind("haproxy", func(addr, upstream string) (string, []string, error) {
		conf, err := l.write("haproxy.cfg", fmt.Sprintf(`global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend front
  bind %s
  default_backend back
backend back
  server backend %s
`, addr, upstream))
		return "haproxy", []string{"-db", "-f", conf}, err
	})
}

// mcpProxyGo is tbxark/mcp-proxy, in front of the same server as a session.
func (l *lab) mcpProxyGo() (*rig.Process, error) {
	return l.behind("tbxark", func(addr, upstream string) (string, []string, error) {
		conf, err := l.write("tbxark.json", fmt.Sprintf(`{
  "mcpProxy": {"baseURL": "http://%[1]s", "addr": %[1]q, "name": "bench", "version": "1", "type": "streamable-http"},
  "mcpServers": {"bench": {"transportType": "streamable-http", "url": "http://%[2]s/legacy"}}
}`, addr, upstream))
		return l.program("mcp-proxy"), []string{"-config", conf}, err
	})
}

// mcpProxyNode is npm's mcp-proxy, which starts the server on stdio.
func (l *lab) mcpProxyNode() (*rig.Process, error) {
	return l.behind("npm mcp-proxy", func(addr, _ string) (string, []string, error) {
		program := filepath.Join(l.opts.npm, "node_modules", "mcp-proxy", "dist", "bin", "mcp-proxy.mjs")
		host, port, err := net.SplitHostPort(addr)
		return "node", []string{program, "--host", host, "--port", port, "--server", "stream", "--", l.program("backend"), "stdio"}, err
	})
}

func (l *lab) fastHTTP() (*rig.Process, error) {
	return l.behind("fasthttp", func(addr, upstream string) (string, []string, error) {
		return l.program("fastproxy"), []string{addr, upstream}, nil
	})
}

func (l *lab) reverseProxy() (*rig.Process, error) {
	return l.behind("ReverseProxy", func(addr, upstream string) (string, []string, error) {
		return l.program("reverseproxy"), []string{addr, upstream}, nil
	})
}

// behind starts a proxy with the server behind it.
func (l *lab) behind(name string, command func(addr, upstream string) (string, []string, error)) (*rig.Process, error) {
	backend, err := l.backend()
	if err != nil {
		return nil, err
	}
	return l.once(name, func(addr string) (string, []string, error) { return command(addr, backend.Addr) })
}

func (l *lab) write(name, text string) (file string, err error) {
	file = filepath.Join(l.dir, name)
	return file, os.WriteFile(file, []byte(text), 0o600)
}
