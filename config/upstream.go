package config

import (
	"errors"
	"strings"
)

// SetUpstream makes what --upstream names the only upstream, called "default"
// and served at /mcp: an http:// or https:// URL, or else a command with its
// arguments. There is no quoting; a command that needs it belongs into the file.
func (c *Config) SetUpstream(s string) error {
	u := Upstream{Name: "default"}
	u.SetDefaults()
	switch fields := strings.Fields(s); {
	case strings.HasPrefix(s, "http://"), strings.HasPrefix(s, "https://"):
		u.URL = s
	case len(fields) == 0:
		return errors.New("want an URL or a command")
	case strings.ContainsAny(s, "'\"\\"):
		return errors.New("a command with quotes must be written as a list: upstreams: [{name: default, command: [program, argument]}]")
	default:
		u.Command = fields
	}
	c.Upstreams = []Upstream{u}
	return nil
}
