package wire

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
)

const paramSchema = `{"type":"object","properties":{
	"region":{"type":"string","x-mcp-header":"Region"},
	"count":{"type":"integer","x-mcp-header":"Count"},
	"dry":{"type":"boolean","x-mcp-header":"Dry-Run"},
	"deep":{"type":"object","properties":{"er":{"type":"string","x-mcp-header":"deeper"}}},
	"list":{"type":"array","items":{"properties":{"no":{"type":"string","x-mcp-header":"No"}}}},
	"x-mcp-header":{"type":"string"}}}`

func TestParamHeaders(t *testing.T) {
	got, err := ParamHeaders(Raw(paramSchema))
	want := []ParamHeader{
		{"Mcp-Param-Region", []string{"region"}},
		{"Mcp-Param-Count", []string{"count"}},
		{"Mcp-Param-Dry-Run", []string{"dry"}},
		{"Mcp-Param-Deeper", []string{"deep", "er"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestParamHeadersRefuses(t *testing.T) {
	for property, want := range map[string]string{
		`"a":{"type":"string","x-mcp-header":""}`:                                           `x-mcp-header of property a: "" is no header name`,
		`"a":{"type":"string","x-mcp-header":7}`:                                            `7 is no header name`,
		`"a":{"type":"string","x-mcp-header":"a b"}`:                                        `is no header name`,
		`"a":{"type":"string","x-mcp-header":"a\r\nb"}`:                                     `is no header name`,
		`"a":{"type":"string","x-mcp-header":"é"}`:                                          `is no header name`,
		`"a":{"type":"number","x-mcp-header":"A"}`:                                          `the type is not string, integer or boolean`,
		`"a":{"type":"object","x-mcp-header":"A"}`:                                          `the type is not`,
		`"a":{"x-mcp-header":"A"}`:                                                          `the type is not`,
		`"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}`: `x-mcp-header of property b: Mcp-Param-A is there twice`,
	} {
		schema := `{"properties":{` + property + `}}`
		if _, err := ParamHeaders(Raw(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", property, err)
		}
		if err := CheckParamHeaders(http.Header{}, Raw(schema), Raw(`{"a":"x"}`)); err != nil {
			t.Errorf("%s: an invalid tool was checked: %v", property, err)
		}
	}
}

func TestParamHeadersOfOtherSchemas(t *testing.T) {
	for _, schema := range []string{``, `true`, `{}`, `{"properties":[]}`, `{"properties":{"a":true}}`, `{"x-mcp-header":"Root"}`} {
		if got, err := ParamHeaders(Raw(schema)); len(got) > 0 || err != nil {
			t.Errorf("%s: %v, %v", schema, got, err)
		}
	}
}

func TestCheckParamHeaders(t *testing.T) {
	for _, c := range []struct{ name, arguments, header, want string }{
		{"same string", `{"region":"eu"}`, "Region: eu", ""},
		{"header name in any case", `{"region":"eu"}`, "rEGION: eu", ""},
		{"white space around the value", `{"region":"eu"}`, "Region: \t eu ", ""},
		{"escaped in the body", `{"region":"\u0065u"}`, "Region: eu", ""},
		{"Base64", `{"region":"Hello, 世界"}`, "Region: =?base64?SGVsbG8sIOS4lueVjA==?=", ""},
		{"empty string", `{"region":""}`, "Region: ", ""},
		{"other string", `{"region":"eu"}`, "Region: us", "Region does not match params.arguments.region"},
		{"case of the value counts", `{"region":"eu"}`, "Region: EU", "does not match"},
		{"missing", `{"region":"eu"}`, "", "Mcp-Param-Region is missing"},
		{"twice", `{"region":"eu"}`, "Region: eu|Region: eu", "is there 2 times"},
		{"bad padding", `{"region":"Hello"}`, "Region: =?base64?SGVsbG8?=", "bad Base64"},
		{"bad alphabet", `{"region":"Hello"}`, "Region: =?base64?SGVs!!!bG8=?=", "bad Base64"},
		{"raw UTF-8", `{"region":"世界"}`, "Region: 世界", "is not allowed"},
		{"null", `{"region":null}`, "", ""},
		{"absent", `{}`, "", ""},
		{"no arguments", ``, "", ""},
		{"null and a header", `{"region":null}`, "Region: null", "is there, but params.arguments.region is not"},
		{"absent and a header", `{}`, "Region: eu", "is not"},
		{"unknown headers are not ours", `{}`, "Other: 1", ""},

		{"integer", `{"count":42}`, "Count: 42", ""},
		{"integer with fraction", `{"count":42}`, "Count: 42.0", ""},
		{"integer with exponent", `{"count":4.2e1}`, "Count: 42", ""},
		{"negative", `{"count":-7}`, "Count: -7", ""},
		{"zeros", `{"count":-0}`, "Count: 0.00", ""},
		{"beyond 2^53", `{"count":9007199254740993}`, "Count: 9007199254740992", "does not match"},
		{"plus sign", `{"count":42}`, "Count: +42", "does not match"},
		{"hexadecimal", `{"count":42}`, "Count: 0x2a", "does not match"},
		{"sign", `{"count":42}`, "Count: -42", "does not match"},
		{"huge exponent", `{"count":1e999999999}`, "Count: 1e999999998", "does not match"},
		{"string for a number", `{"count":"42"}`, "Count: 42.0", "does not match"},

		{"true", `{"dry":true}`, "Dry-Run: true", ""},
		{"false is a value", `{"dry":false}`, "", "is missing"},
		{"boolean in capitals", `{"dry":true}`, "Dry-Run: True", "does not match"},

		{"nested", `{"deep":{"er":"x"}}`, "Deeper: x", ""},
		{"nested missing", `{"deep":{"er":"x"}}`, "", "params.arguments.deep.er"},
		{"nested elsewhere", `{"er":"x","deep":3}`, "", ""},
		{"not along properties", `{"list":[{"no":"x"}]}`, "", ""},
		{"all of them", `{"region":"eu","count":1,"dry":false,"deep":{"er":"y"}}`, "Region: eu|Count: 1|Dry-Run: false|Deeper: y", ""},
		{"the last is wrong", `{"region":"eu","deep":{"er":"y"}}`, "Region: eu|Deeper: z", "deep.er"},
	} {
		h := http.Header{"Mcp-Name": {"tool"}}
		for name, values := range headers(c.header) {
			h[http.CanonicalHeaderKey(HeaderParam+name)] = values
		}
		checkMismatch(t, c.name, CheckParamHeaders(h, Raw(paramSchema), Raw(c.arguments)), c.want)
	}
}

// checkMismatch wants no error when want is "", else -32020 with want in its message.
func checkMismatch(t *testing.T, name string, err *Error, want string) {
	t.Helper()
	switch {
	case err == nil && want == "":
	case err == nil || want == "" || err.Code != CodeHeaderMismatch || !strings.Contains(err.Message, want):
		t.Errorf("%s: got %v, want %q", name, err, want)
	}
}
