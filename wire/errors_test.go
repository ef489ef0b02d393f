package wire

import (
	"fmt"
	"testing"
)

func TestErrorRaw(t *testing.T) {
	for want, e := range map[string]*Error{
		`{"code":-32601,"message":"Method not found"}`:   Errorf(CodeMethodNotFound, "Method not found"),
		`{"code":1,"message":"m","data":{"n":1.0}}`:      {Code: 1, Message: "m", Data: Raw(`{"n":1.0}`)},
		`{"code":2,"message":"data was no JSON"}`:        {Code: 2, Message: "data was no JSON", Data: Raw(`{`)},
		`{"code":3,"message":"data does not marshal"}`:   Errorf(3, "data does not marshal").WithData(func() {}),
		`{"code":4,"message":"m","data":{"limit":1024}}`: Errorf(4, "m").WithData(map[string]int{"limit": 1024}),
		`{"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`: MissingCapability(TasksRequired),
	} {
		if got := string(e.Raw()); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

func TestParseError(t *testing.T) {
	for in, want := range map[string]string{
		`{"code":-1,"message":"m","data":[1]}`: `m (-1) [1]`,
		`{"message":"m"}`:                      `m (0) `,
		`{"code":"x"}`:                         `malformed error object: {"code":"x"} (-32603) `,
		`null`:                                 `malformed error object: null (-32603) `,
	} {
		e := ParseError(Raw(in))
		if got := fmt.Sprintf("%v %s", e, e.Data); got != want {
			t.Errorf("%s: got %q", in, got)
		}
	}
}
