package strictyaml

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

var (
	durationType        = reflect.TypeFor[time.Duration]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// isLeaf tells a type that is written as one scalar though its kind may say
// otherwise.
func isLeaf(t reflect.Type) bool {
	return t == durationType || (t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(textUnmarshalerType))
}

func (d *decoder) leaf(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.mistake(n, path, "want a single value, not %s", describe(n))
		return
	}
	if err := setLeaf(n, v); err != nil {
		d.mistake(n, path, "%v", err)
	}
}

func setLeaf(n *yaml.Node, v reflect.Value) error {
	if v.Type() == durationType {
		dur, err := ParseDuration(n.Value)
		v.SetInt(int64(dur))
		return err
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(n.Value))
	}
	switch v.Kind() {
	case reflect.String:
		return setString(n, v)
	case reflect.Bool:
		return setBool(n, v)
	case reflect.Int, reflect.Int64:
		return setInt(n, v)
	case reflect.Float64:
		return setFloat(n, v)
	}
	return fmt.Errorf("strictyaml does not know the type %s", v.Type())
}

func setString(n *yaml.Node, v reflect.Value) error {
	if n.ShortTag() != "!!str" {
		return fmt.Errorf("want text, not %s; write %q in quotes if that is meant", describe(n), n.Value)
	}
	if e, ok := v.Interface().(Enum); ok && !slices.Contains(e.Values(), n.Value) {
		return fmt.Errorf("%q is not known; %s", n.Value, suggestion(n.Value, e.Values()))
	}
	v.SetString(n.Value)
	return nil
}

func setBool(n *yaml.Node, v reflect.Value) error {
	if n.ShortTag() != "!!bool" {
		return fmt.Errorf("want true or false, not %q", n.Value)
	}
	v.SetBool(strings.EqualFold(n.Value, "true"))
	return nil
}

func setInt(n *yaml.Node, v reflect.Value) error {
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || n.ShortTag() != "!!int" || i < 0 {
		return fmt.Errorf("want a whole number that is not negative, not %q", n.Value)
	}
	v.SetInt(i)
	return nil
}

func setFloat(n *yaml.Node, v reflect.Value) error {
	f, err := strconv.ParseFloat(n.Value, 64)
	if tag := n.ShortTag(); err != nil || (tag != "!!int" && tag != "!!float") {
		return fmt.Errorf("want a number, not %q", n.Value)
	}
	v.SetFloat(f)
	return nil
}

// ParseDuration reads a duration that says its unit and is not negative. It is
// stricter than time.ParseDuration, which takes "0" and "-1s".
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch _, isNumber := strconv.ParseFloat(s, 64); {
	case isNumber == nil:
		return 0, fmt.Errorf("%q has no unit; write %ss for seconds, or use ms, m or h", s, s)
	case err != nil && daysOf(s) > 0:
		return 0, fmt.Errorf("%q: days are not a unit; write %dh", s, daysOf(s)*24)
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration; write one such as 500ms, 2s, 15m or 1h30m", s)
	case d < 0:
		return 0, fmt.Errorf("%q is negative; a duration is 0s or more", s)
	}
	return d, nil
}

// daysOf reads "7d"; 0 when s is no such thing.
func daysOf(s string) int {
	n, ok := strings.CutSuffix(s, "d")
	days, err := strconv.Atoi(n)
	if !ok || err != nil || days > math.MaxInt32/24 {
		return 0
	}
	return days
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	}
	return strconv.Quote(n.Value)
}
