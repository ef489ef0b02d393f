package policy

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Sees tells whether conditions see the request header of that name, in lower
// case. nil: it is not known which they see.
type Sees func(header string) bool

// SeesOnly are the headers that a configuration lets policy see.
func SeesOnly(headers []string) Sees {
	return func(name string) bool {
		return slices.ContainsFunc(headers, func(h string) bool { return strings.EqualFold(h, name) })
	}
}

// check says what is wrong with reading a header; "" when nothing is.
func (sees Sees) check(name string) string {
	lower := strings.ToLower(name)
	switch {
	case name != lower:
		return fmt.Sprintf("headers have lower-case names here, so there never is a %q; write %q", name, lower)
	case sees != nil && !sees(name):
		return fmt.Sprintf("no condition sees the header %q, since policyHeaders of the configuration does not list it; add it there", name)
	}
	return ""
}

// headersRead lists the headers that a condition names: headers["x"], headers.x
// and "x" in headers. Names that are computed are not found.
func headersRead(checked *cel.Ast) []string {
	var names []string
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if name, ok := headerRead(e); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}))
	return names
}

func headerRead(e ast.Expr) (name string, ok bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().FieldName(), isHeaders(e.AsSelect().Operand())
	case ast.CallKind:
		args := e.AsCall().Args()
		switch e.AsCall().FunctionName() {
		case operators.Index:
			return literal(args[1], isHeaders(args[0]))
		case operators.In:
			return literal(args[0], isHeaders(args[1]))
		}
	}
	return "", false
}

func isHeaders(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "headers" }

// literal is the text that e stands for, if it is wanted and e is a literal.
func literal(e ast.Expr, wanted bool) (string, bool) {
	if !wanted || e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}
