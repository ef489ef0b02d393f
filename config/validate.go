package config

import (
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Problem is one value that cannot be.
type Problem struct {
	Path    string // of the field, as in "upstreams[1].url"
	Message string // what is wrong and what to do
}

// Problems are everything that Validate found.
type Problems []Problem

// Error has one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Path + ": " + p.Message
	}
	return strings.Join(lines, "\n")
}

// Validate looks at every value and at how they go together. The error is a
// Problems.
func (c Config) Validate() error {
	v := &validator{}
	v.listeners(c)
	v.tls(c.TLS)
	v.identity(c)
	v.audit(c.Audit)
	v.browsers(c)
	v.store(c)
	v.encryption(c.Encryption)
	v.policyHeaders(c)
	v.upstreams(c)
	v.limits(c.Limits)
	v.timeouts(c)
	v.log(c.Log)
	v.tracing(c)
	if len(v.problems) > 0 {
		return v.problems
	}
	return nil
}

type validator struct{ problems Problems }

func (v *validator) problem(path, format string, args ...any) {
	v.problems = append(v.problems, Problem{path, fmt.Sprintf(format, args...)})
}

func (v *validator) listeners(c Config) {
	host := v.hostPort("listen", c.Listen)
	if host != "" && !isLoopback(host) && len(c.Identity) == 0 && !c.InsecureNoIdentity {
		v.problem("listen", "%s is open to others, but no identity is configured, so that all callers would be one; listen on 127.0.0.1, or set insecureNoIdentity: true if something in front decides who may call", c.Listen)
	}
	if c.AdminListen == "" {
		return
	}
	v.hostPort("adminListen", c.AdminListen)
	if c.AdminListen == c.Listen && !strings.HasSuffix(c.Listen, ":0") {
		v.problem("adminListen", "is the same as listen; give it a port of its own")
	}
}

// hostPort returns the host that s names, "*" for all, or "" after a problem.
func (v *validator) hostPort(path, s string) string {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		v.problem(path, "%q is not host:port; write one such as 127.0.0.1:8080", s)
		return ""
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		v.problem(path, "%q: the port must be a number up to 65535", s)
	}
	if host == "" {
		return "*"
	}
	return host
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

func (v *validator) browsers(c Config) {
	for i, o := range c.AllowedOrigins {
		u, err := url.Parse(o)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || o != u.Scheme+"://"+u.Host {
			v.problem(item("allowedOrigins", i), "%q is not an origin; write one such as https://app.example.com", o)
		}
	}
	for i, h := range c.AllowedHosts {
		if h == "" || strings.ContainsAny(h, "/ *") {
			v.problem(item("allowedHosts", i), "%q is not a host; write one such as mcp.example.com or mcp.example.com:8443", h)
		}
	}
}

func (v *validator) policyHeaders(c Config) {
	for i, h := range c.PolicyHeaders {
		switch path := item("policyHeaders", i); {
		case !httpguts.ValidHeaderFieldName(h):
			v.problem(path, "%q is not a header name", h)
		case carriesCredentials(h), isKeyHeader(c, h):
			v.problem(path, "%s carries credentials, which policy may not see; use principal in the rule", h)
		}
	}
}

func carriesCredentials(header string) bool {
	return slices.ContainsFunc([]string{"Authorization", "Proxy-Authorization", "Cookie"}, func(h string) bool {
		return strings.EqualFold(h, header)
	})
}

// limits: nothing is unlimited.
func (v *validator) limits(l Limits) { v.positive("limits", l) }

// positive wants each number in a struct to be over zero, but for the fields
// that are named.
func (v *validator) positive(path string, s any, except ...string) {
	rv := reflect.ValueOf(s)
	for i := range rv.NumField() {
		name := rv.Type().Field(i).Tag.Get("yaml")
		if f := rv.Field(i); f.Int() < 0 || (f.Int() == 0 && !slices.Contains(except, name)) {
			v.problem(path+"."+name, "must be more than 0, not %v", f.Interface())
		}
	}
}

func (v *validator) timeouts(c Config) {
	v.positive("timeouts", c.Timeouts, "drain")
	if c.Tombstone < 0 {
		v.problem("tombstone", "must not be negative")
	}
	if c.Lease < time.Second {
		v.problem("lease", "%s is too short to be renewed reliably; write 10s", c.Lease)
	} else if c.Timeouts.Store >= c.Lease {
		v.problem("timeouts.store", "%s is not below lease %s, which could then not be renewed in time; lower it", c.Timeouts.Store, c.Lease)
	}
}

func (v *validator) log(l Log) {
	v.enum("log.level", string(l.Level), l.Level.Values())
	v.enum("log.format", string(l.Format), l.Format.Values())
}

func (v *validator) enum(path, value string, allowed []string) {
	if !slices.Contains(allowed, value) {
		v.problem(path, "%q is not known; write one of %s", value, strings.Join(allowed, ", "))
	}
}

func item(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
