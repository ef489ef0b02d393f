package config

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"taskgate/internal/strictyaml"
)

const example = "../config.example.yaml"

// leaves lists the fields of v that hold single values, or lists of them, by path.
func leaves(v reflect.Value, path string, out map[string]any) {
	for i := range v.NumField() {
		f, at := v.Field(i), path+v.Type().Field(i).Tag.Get("yaml")
		_, isText := f.Interface().(fmt.Stringer)
		switch {
		case f.Kind() == reflect.Struct && !isText:
			leaves(f, at+".", out)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct, v.Type().Field(i).Tag.Get("env") == "-":
		default:
			out[at] = f.Interface()
		}
	}
}

func leavesOf(v any, path string) map[string]any {
	out := map[string]any{}
	leaves(reflect.ValueOf(v), path, out)
	return out
}

// TestExample: config.example.yaml shows every field, and the values that it does
// not mark as examples are the defaults.
func TestExample(t *testing.T) {
	c, err := Load(example, []string{"REDIS_PASSWORD=x", "REPORTS_API_KEY=y", "REPORTS_CLIENT_SECRET=z", "OTLP_AUTHORIZATION=w", "TASKGATE_STORE_KEY=" + strings.Repeat("0", 64)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	lines, _ := strictyaml.Decode(data, &Config{})
	text := strings.Split(string(data), "\n")
	compare := func(got, defaults map[string]any, optional ...string) {
		for path, want := range defaults {
			line, ok := lines[path]
			switch {
			case !ok && !slices.Contains(optional, path):
				t.Errorf("%s is not shown", path)
			case !ok, strings.Contains(text[line-1], "# example"), strings.Contains(text[line-1], "default: "), slices.Contains(optional, path):
			case !reflect.DeepEqual(got[path], want):
				t.Errorf("%s: shows %v, the default is %v", path, got[path], want)
			}
		}
	}
	compare(leavesOf(c, ""), leavesOf(Default(), ""))
	var u Upstream
	u.SetDefaults()
	first := "upstreams[0]."
	compare(leavesOf(c.Upstreams[0], first), leavesOf(u, first), first+"name", first+"url", first+"command", first+"aggregate", first+"auth.token")
	if len(c.Upstreams[1].Command) == 0 {
		t.Error("no command is shown")
	}
	if len(c.Upstreams[2].Aggregate) == 0 {
		t.Error("no aggregate is shown")
	}
}

// TestDocumentation: docs/config.md names every field and its variable, and its
// example loads.
func TestDocumentation(t *testing.T) {
	data, err := os.ReadFile("../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	names := variables()
	for path, value := range leavesOf(Default(), "") {
		row := fmt.Sprintf("| `%s` | `%s` | %s |", path, names[path], shown(value))
		if !strings.Contains(doc, row) {
			t.Errorf("docs/config.md has no row that begins with\n%s", row)
		}
	}
	var u Upstream
	u.SetDefaults()
	for path, value := range leavesOf(u, "") {
		if row := fmt.Sprintf("| `%s` | %s |", path, shown(value)); !strings.Contains(doc, row) {
			t.Errorf("docs/config.md has no row that begins with\n%s", row)
		}
	}
	_, snippet, _ := strings.Cut(doc, "```yaml\n")
	snippet, _, _ = strings.Cut(snippet, "```")
	path := t.TempDir() + "/doc.yaml"
	if err := os.WriteFile(path, []byte(snippet), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, []string{"REPORTS_AUTHORIZATION=x"}, nil); err != nil || snippet == "" {
		t.Errorf("%v in\n%s", err, snippet)
	}
}

// shown is how the documentation writes a default.
func shown(value any) string {
	if d, ok := value.(time.Duration); ok {
		s := strings.TrimSuffix(d.String(), "0s")
		if strings.HasSuffix(s, "h0m") || !strings.HasSuffix(s, "m") {
			s = strings.TrimSuffix(d.String(), "0m0s")
		}
		return "`" + s + "`"
	}
	if v := reflect.ValueOf(value); v.IsZero() && v.Kind() != reflect.Int && v.Kind() != reflect.Bool {
		return "none"
	}
	return fmt.Sprintf("`%v`", value)
}

func TestVariables(t *testing.T) {
	names := slices.Sorted(maps.Values(variables()))
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("a name is used twice: %v", names)
	}
	for _, name := range names {
		if serviceLink.MatchString(name) {
			t.Errorf("%s: Kubernetes sets such a variable itself", name)
		}
	}
	if got := variables()["limits.maxOpenTasksPerPrincipal"]; got != "TASKGATE_LIMITS_MAX_OPEN_TASKS_PER_PRINCIPAL" {
		t.Errorf("got %s", got)
	}
}

// TestEveryVariableReachesItsField sets each to something that is not the default.
func TestEveryVariableReachesItsField(t *testing.T) {
	values := map[string]string{"redis.password": "env:X", "log.level": "warn", "log.format": "console", "encryption.plaintext": "refuse", "tls.clientAuth": "optional"}
	for path, def := range leavesOf(Default(), "") {
		value, ok := values[path]
		if !ok {
			value = sample(def)
		}
		c := Default()
		if err := setVariable(&c, variables()[path], value); err != nil {
			t.Errorf("%s=%s: %v", path, value, err)
		}
		for other, got := range leavesOf(c, "") {
			if changed := !reflect.DeepEqual(got, leavesOf(Default(), "")[other]); changed != (other == path) {
				t.Errorf("%s=%s: %s is %v", path, value, other, got)
			}
		}
	}
}

func sample(def any) string {
	switch def.(type) {
	case time.Duration:
		return "77s"
	case ByteSize:
		return "77KiB"
	case bool:
		return "true"
	}
	return "77"
}

func TestUnknownVariables(t *testing.T) {
	var c Config
	c.Upstreams = []Upstream{{Headers: map[string]Secret{"Authorization": {reference: "env:TASKGATE_TOKEN"}}}}
	got := UnknownVariables([]string{
		"TASKGATE_LISTNE=x", "TASKGATE_LISTEN=x", "TASKGATE_UPSTREAM=x", "TASKGATE_TOKEN=x", "TASKGATE_WHATEVER_ELSE=x", "OTHER=x",
		"TASKGATE_PORT=tcp://10.0.0.1:80", "TASKGATE_SERVICE_HOST=10.0.0.1", "TASKGATE_PORT_80_TCP_ADDR=10.0.0.1", "TASKGATE_REDIS_SERVICE_PORT=6379",
	}, c)
	if want := []string{"TASKGATE_LISTNE (did you mean TASKGATE_LISTEN?)", "TASKGATE_WHATEVER_ELSE"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
