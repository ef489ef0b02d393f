package wire

import "testing"

func TestLegacyResultDropsWhatModernResultAdds(t *testing.T) {
	for _, c := range []struct{ method, legacy string }{
		{"tools/call", `{"content":[{"type":"text","text":"a\u0062c"}],"structuredContent":{"n":12345678901234567890}}`},
		{"tools/list", `{"tools":[{"name":"a","inputSchema":{}}],"nextCursor":"x"}`},
		{"resources/read", `{"contents":[],"_meta":{"mine":1}}`},
	} {
		modern, err := ModernResult(c.method, Raw(c.legacy), Raw(`{"name":"s","version":"1"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(LegacyResult(modern)); got != c.legacy {
			t.Errorf("%s:\ngot  %s\nwant %s", c.method, got, c.legacy)
		}
	}
}

func TestLegacyErrorHasTheOldCode(t *testing.T) {
	for _, c := range []struct{ method, modern, want string }{
		{"resources/read", `{"code":-32602,"message":"m","data":{"uri":"a:b"}}`, `{"code":-32002,"message":"m","data":{"uri":"a:b"}}`},
		{"resources/read", `{"code":-32602,"message":"m"}`, `{"code":-32602,"message":"m"}`},
		{"tools/call", `{"code":-32602,"message":"m","data":{"uri":"a:b"}}`, `{"code":-32602,"message":"m","data":{"uri":"a:b"}}`},
		{"tools/call", `{"code":-32021,"message":"m","data":{"requiredCapabilities":{}}}`, `{"code":-32600,"message":"m","data":{"requiredCapabilities":{}}}`},
		{"tools/call", `{"code": 7, "message":"mine"}`, `{"code": 7, "message":"mine"}`},
	} {
		if got := string(LegacyError(c.method, Raw(c.modern))); got != c.want {
			t.Errorf("%s %s:\ngot  %s\nwant %s", c.method, c.modern, got, c.want)
		}
	}
}
