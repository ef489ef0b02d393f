package policy

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// Bounds of a condition.
const (
	maxWhenLength = 10_000 // characters
	maxWhenNested = 2      // loops within loops
	// maxWhenCost is in CEL's units: about the number of steps, or tenths of the
	// bytes that string functions read. Reaching it takes some 15 ms.
	maxWhenCost = 100_000
)

// whenSees says what a condition can use.
const whenSees = "a condition sees args, tool.name, tool.annotations, client.name, client.capabilities, principal.tenant, principal.subject and headers"

// newEnvironment is what conditions are compiled in.
func newEnvironment() (*cel.Env, error) {
	object := cel.MapType(cel.StringType, cel.DynType)
	return cel.NewEnv(
		cel.Variable("args", object),
		cel.Variable("tool.name", cel.StringType),
		cel.Variable("tool.annotations", object),
		cel.Variable("client.name", cel.StringType),
		cel.Variable("client.capabilities", object),
		cel.Variable("principal.tenant", cel.StringType),
		cel.Variable("principal.subject", cel.StringType),
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxWhenLength),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateComprehensionNestingLimit(maxWhenNested)),
	)
}

// condition is a compiled `when`.
type condition struct {
	text    string
	program cel.Program
	headers []string // that it reads
	failed  atomic.Int64
	first   atomic.Pointer[string]
}

// compileWhen compiles and type-checks text. The error is one line for people.
func compileWhen(env *cel.Env, text string) (*condition, error) {
	ast, issues := env.Compile(text)
	if errs := issues.Errors(); len(errs) > 0 {
		return nil, whenError(text, errs)
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("is of type %s; write a condition that is true or false", t)
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxWhenCost))
	if err != nil {
		return nil, err
	}
	return &condition{text: text, program: program, headers: headersRead(ast)}, nil
}

func whenError(text string, errs []*cel.Error) error {
	var out []string
	hint := ""
	for _, e := range errs {
		message := strings.TrimSuffix(e.Message, " (in container '')")
		message, _, _ = strings.Cut(message, " expecting ") // a list of tokens
		if strings.HasPrefix(message, "undeclared reference") {
			hint = "; " + whenSees
		}
		at := fmt.Sprintf("character %d: ", e.Location.Column()+1)
		if strings.Contains(text, "\n") {
			at = fmt.Sprintf("line %d, %s", e.Location.Line(), at)
		}
		out = append(out, at+message)
	}
	return errors.New(strings.Join(out, "; ") + hint)
}

// holds evaluates the condition. An error counts as false.
func (c *condition) holds(f *facts) (bool, error) {
	v, _, err := c.program.Eval(f)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("is of type %s, not true or false", v.Type().TypeName())
	}
	return bool(b), nil
}

// count records a failed evaluation and tells the first.
func (c *condition) count(err error) (first bool) {
	c.failed.Add(1)
	kind := failureKind(err)
	return c.first.CompareAndSwap(nil, &kind)
}

// failureKind is what may be logged of a failure. The whole text may quote the
// arguments, as in `parsing "hunter2"`, and is for Explain only.
func failureKind(err error) string {
	for _, kind := range []string{"no such key", "no such overload", "cost limit exceeded", "not true or false", "index out of bounds", "cannot unmarshal"} {
		if strings.Contains(err.Error(), kind) {
			return kind
		}
	}
	return "another failure"
}
