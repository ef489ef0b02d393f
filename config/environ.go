package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"taskgate/internal/strictyaml"
)

// Names in the environment. Kubernetes sets variables of its own for a service
// called taskgate: TASKGATE_PORT, TASKGATE_SERVICE_HOST and their like. No field
// may have such a name.
const (
	envPrefix        = "TASKGATE_"
	upstreamVariable = envPrefix + "UPSTREAM" // what --upstream takes
)

var serviceLink = regexp.MustCompile(`^TASKGATE_(.+_)?(SERVICE_HOST|SERVICE_PORT|PORT)(_.+)?$`)

// variables maps the path of each field to its variable.
func variables() map[string]string {
	out := map[string]string{}
	addVariables(out, reflect.TypeFor[Config](), "", envPrefix)
	return out
}

func addVariables(out map[string]string, t reflect.Type, path, prefix string) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := path + f.Tag.Get("yaml")
		if group, ok := f.Tag.Lookup("envPrefix"); ok {
			addVariables(out, f.Type, at+".", prefix+group)
		} else if name := f.Tag.Get("env"); name != "-" {
			out[at] = prefix + name
		}
	}
}

// setVariable gives one variable to the field it belongs to.
func setVariable(c *Config, name, value string) error {
	err := env.ParseWithOptions(c, env.Options{
		Prefix:      envPrefix,
		Environment: map[string]string{name: value},
		FuncMap:     parsers(),
	})
	if bad := (env.ParseError{}); errors.As(err, &bad) {
		return bad.Err
	}
	return err
}

// parsers are as strict as the file is.
func parsers() map[reflect.Type]env.ParserFunc {
	return map[reflect.Type]env.ParserFunc{
		reflect.TypeFor[time.Duration](): func(v string) (any, error) { return strictyaml.ParseDuration(v) },
		reflect.TypeFor[string]():        func(v string) (any, error) { return strings.TrimSpace(v), nil },
		reflect.TypeFor[bool](): func(v string) (any, error) {
			if v != "true" && v != "false" {
				return nil, fmt.Errorf("want true or false, not %q", v)
			}
			return v == "true", nil
		},
		reflect.TypeFor[float64](): func(v string) (any, error) {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return nil, fmt.Errorf("want a number, not %q", v)
			}
			return f, nil
		},
		reflect.TypeFor[int](): func(v string) (any, error) {
			n, err := strconv.Atoi(v)
			if err != nil {
				return nil, fmt.Errorf("want a whole number, not %q", v)
			}
			return n, nil
		},
	}
}

// UnknownVariables lists the variables of environ that look like the gateway's
// but are not, each with the likeliest name; a misspelt one would otherwise go
// unnoticed. Variables that a secret of c refers to, and those that Kubernetes
// sets for services, are left out.
func UnknownVariables(environ []string, c Config) []string {
	known := []string{upstreamVariable}
	for _, name := range variables() {
		known = append(known, name)
	}
	var out []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(known, name) || serviceLink.MatchString(name) || c.refersTo(name) {
			continue
		}
		if near := strictyaml.Nearest(name, known); len(near) > 0 {
			name += " (did you mean " + near[0] + "?)"
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (c Config) refersTo(variable string) (found bool) {
	c.eachSecret(func(_ string, s *Secret) { found = found || s.reference == "env:"+variable })
	return found
}
