// Package strictyaml reads one YAML document into a Go value and refuses what
// it does not understand: unknown and repeated keys, keys without a value,
// numbers where text is wanted, a second document. It reports every mistake at
// once, each with its line and, where it can, with what to write instead.
//
// Struct fields are named by their yaml tag; fields without one are not read.
// Embedded structs lend their fields to the outer one. Beside the plain kinds
// it knows time.Duration, encoding.TextUnmarshaler, Enum and Defaulter.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Enum is a string type of which only some values are allowed.
type Enum interface {
	// Values lists the allowed values; it does not look at its receiver.
	Values() []string
}

// Defaulter is an element of a list or map, or what a pointer points to, that
// does not start at zero.
type Defaulter interface {
	// SetDefaults is called before the element is read.
	SetDefaults()
}

// Mistake is one thing that is wrong with a document.
type Mistake struct {
	Line    int    // from 1; 0 when it is not known
	Path    string // where in the document, as in "rules[2].match.tool"
	Message string
}

// Text is the mistake without its line.
func (m Mistake) Text() string {
	if m.Path == "" {
		return m.Message
	}
	return m.Path + ": " + m.Message
}

// Lines tells on which line a path of the document begins.
type Lines map[string]int

// Decode reads data into the struct that v points to. Fields that the document
// does not name keep their values. After a mistake the rest is still read, so
// that v is complete but for what was wrong.
func Decode(data []byte, v any) (Lines, []Mistake) {
	root, mistakes := parse(data)
	d := decoder{lines: Lines{}, mistakes: mistakes}
	if root != nil {
		d.value(root, "", reflect.ValueOf(v).Elem())
	}
	slices.SortStableFunc(d.mistakes, func(a, b Mistake) int { return a.Line - b.Line })
	return d.lines, d.mistakes
}

// parse returns the content of the only document.
func parse(data []byte) (*yaml.Node, []Mistake) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, next yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF), err == nil && len(doc.Content) == 0:
		return nil, []Mistake{{Line: 1, Message: "the file is empty"}}
	case err != nil:
		return nil, []Mistake{syntaxMistake(data, err)}
	}
	root := doc.Content[0]
	switch err := dec.Decode(&next); {
	case err == nil:
		return root, []Mistake{{Line: next.Line, Message: "a second document begins here; move it into a file of its own"}}
	case !errors.Is(err, io.EOF):
		return root, []Mistake{syntaxMistake(data, err)}
	}
	return root, nil
}

type decoder struct {
	lines    Lines
	mistakes []Mistake
}

func (d *decoder) mistake(n *yaml.Node, path, format string, args ...any) {
	d.mistakes = append(d.mistakes, Mistake{Line: n.Line, Path: path, Message: fmt.Sprintf(format, args...)})
}

// value reads n into v. How deep it goes is bounded by v's type, so an alias
// that contains itself does no harm.
func (d *decoder) value(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if _, seen := d.lines[path]; !seen {
		d.lines[path] = n.Line
	}
	if n.ShortTag() == "!!null" {
		d.mistake(n, path, "has no value; write one or remove the key")
		return
	}
	if isLeaf(v.Type()) {
		d.leaf(n, path, v)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		d.optional(n, path, v)
	case reflect.Struct:
		d.object(n, path, v)
	case reflect.Slice:
		d.list(n, path, v)
	case reflect.Map:
		d.table(n, path, v)
	default:
		d.leaf(n, path, v)
	}
}

// optional reads n into a new value, which is dropped when it is wrong: what
// looks at v afterwards does not take half a value for a whole one.
func (d *decoder) optional(n *yaml.Node, path string, v reflect.Value) {
	before := len(d.mistakes)
	e := newElement(v.Type().Elem())
	if d.value(n, path, e); len(d.mistakes) == before {
		v.Set(e.Addr())
	}
}

// object reads a mapping into a struct.
func (d *decoder) object(n *yaml.Node, path string, v reflect.Value) {
	fields := fieldsOf(v.Type())
	d.entries(n, path, func(key, value *yaml.Node, at string) {
		i := slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Tag.Get("yaml") == key.Value })
		if i < 0 {
			d.mistake(key, path, "unknown key %q; %s", key.Value, suggestion(key.Value, namesOf(fields)))
			return
		}
		d.value(value, at, v.FieldByIndex(fields[i].Index))
	})
}

// table reads a mapping with keys of the writer's choice.
func (d *decoder) table(n *yaml.Node, path string, v reflect.Value) {
	out := reflect.MakeMap(v.Type())
	d.entries(n, path, func(key, value *yaml.Node, at string) {
		e := newElement(v.Type().Elem())
		d.value(value, at, e)
		out.SetMapIndex(reflect.ValueOf(key.Value), e)
	})
	v.Set(out)
}

// entries calls each for the entries of a mapping.
func (d *decoder) entries(n *yaml.Node, path string, each func(key, value *yaml.Node, at string)) {
	if n.Kind != yaml.MappingNode {
		d.mistake(n, path, "want a mapping of keys to values, not %s", describe(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		if key.Kind != yaml.ScalarNode {
			d.mistake(key, path, "want a plain key, not %s", describe(key))
			continue
		}
		if line, ok := seen[key.Value]; ok {
			d.mistake(key, at, "is set a second time; line %d sets it already", line)
			continue
		}
		seen[key.Value] = key.Line
		d.lines[at] = key.Line
		each(key, value, at)
	}
}

func (d *decoder) list(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.mistake(n, path, "want a list, not %s", describe(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for i, item := range n.Content {
		e := newElement(v.Type().Elem())
		d.value(item, fmt.Sprintf("%s[%d]", path, i), e)
		out = reflect.Append(out, e)
	}
	v.Set(out)
}

func newElement(t reflect.Type) reflect.Value {
	p := reflect.New(t)
	if def, ok := p.Interface().(Defaulter); ok {
		def.SetDefaults()
	}
	return p.Elem()
}

func fieldsOf(t reflect.Type) []reflect.StructField {
	var out []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("yaml"); name != "" && name != "-" {
			out = append(out, f)
		}
	}
	return out
}

func namesOf(fields []reflect.StructField) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.Tag.Get("yaml"))
	}
	return out
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
