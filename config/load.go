package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"taskgate/internal/strictyaml"
)

// maxFileBytes bounds the configuration file.
const maxFileBytes = 4 << 20

// Load makes the configuration: Default, then the file at path unless that is
// "", then environ as os.Environ gives it, then overlay unless it is nil, which
// is where flags go. Secrets are looked up and the whole is validated. The error
// has one line for each mistake.
func Load(path string, environ []string, overlay func(*Config) error) (Config, error) {
	l := loader{config: Default(), path: path, environ: toMap(environ), variables: variables()}
	l.file()
	l.environment()
	if overlay != nil {
		if err := overlay(&l.config); err != nil {
			l.errs = append(l.errs, err)
		}
	}
	l.secrets()
	l.validate()
	return l.config, errors.Join(l.errs...)
}

type loader struct {
	config  Config
	path    string
	environ map[string]string
	// variables are the names of variables by the path of their field.
	variables map[string]string
	lines     strictyaml.Lines
	mistaken  []string // paths in the file that could not be read
	errs      []error
}

func toMap(environ []string) map[string]string {
	out := make(map[string]string, len(environ))
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			out[name] = value
		}
	}
	return out
}

func (l *loader) file() {
	if l.path == "" {
		return
	}
	data, err := readFile(l.path)
	if err != nil {
		l.errs = append(l.errs, err)
		return
	}
	var mistakes []strictyaml.Mistake
	l.lines, mistakes = strictyaml.Decode(data, &l.config)
	for _, m := range mistakes {
		l.mistaken = append(l.mistaken, m.Path)
		l.errs = append(l.errs, fmt.Errorf("%s:%d: %s", l.path, m.Line, m.Text()))
	}
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s has %d bytes; a configuration file has at most %d", path, info.Size(), maxFileBytes)
	}
	return os.ReadFile(path)
}

// environment applies the variables one at a time, because the library's errors
// name the Go field and not the variable.
func (l *loader) environment() {
	if v := l.environ[upstreamVariable]; v != "" {
		if err := l.config.SetUpstream(v); err != nil {
			l.errs = append(l.errs, fmt.Errorf("%s: %w", upstreamVariable, err))
		}
	}
	l.otelVariables()
	for _, path := range slices.Sorted(maps.Keys(l.variables)) {
		name := l.variables[path]
		if l.environ[name] == "" { // as good as not set
			continue
		}
		if err := setVariable(&l.config, name, l.environ[name]); err != nil {
			l.errs = append(l.errs, fmt.Errorf("%s: %w", name, err))
		}
	}
}

// secrets looks up what the secrets refer to.
func (l *loader) secrets() {
	l.config.eachSecret(func(path string, s *Secret) {
		if err := s.resolve(l.environ); err != nil {
			l.errs = append(l.errs, fmt.Errorf("%s: %w", l.origin(path), err))
		}
	})
}

func (l *loader) validate() {
	var problems Problems
	if errors.As(l.config.Validate(), &problems) {
		for _, p := range problems {
			if l.follows(p.Path) {
				continue
			}
			l.errs = append(l.errs, fmt.Errorf("%s: %s", l.origin(p.Path), p.Message))
		}
	}
}

// follows tells whether what is wrong with a whole is that a part of it could
// not be read, which has been said.
func (l *loader) follows(path string) bool {
	return slices.ContainsFunc(l.mistaken, func(m string) bool { return strings.HasPrefix(m, path+".") })
}

// origin tells where the value at path was set: in the environment, in the file,
// or else by a flag or by default.
func (l *loader) origin(path string) string {
	if name := l.variables[path]; l.environ[name] != "" {
		return name
	}
	for at := path; at != ""; at = parent(at) {
		if line, ok := l.lines[at]; ok {
			return fmt.Sprintf("%s:%d: %s", l.path, line, path)
		}
	}
	return path
}

func parent(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }
