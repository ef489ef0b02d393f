package wire

import (
	"fmt"
	"strconv"
)

// ResultType is the resultType of a decoded message's result; "" where there is
// none, as in those of a legacy server.
func ResultType(result Raw) string {
	t, _ := String(Lookup(result, "resultType"))
	return t
}

// ModernResult turns a legacy server's result of method into one that a client
// of 2026-07-28 accepts. Where they are absent it adds resultType "complete",
// the caching hints of list, read and discover results (stale at once, private:
// a legacy server promised nothing), the content of a tool result, and
// serverInfo, unless that is nil. It drops what the tasks of 2025-11-25 have
// left behind: execution of listed tools, the related task of a tool result.
// Every other value keeps its bytes. The result is one of a decoded message; the
// error says what of it is not of the shape that method has.
func ModernResult(method string, result, serverInfo Raw) (Raw, error) {
	o, err := splitObject(result)
	if err != nil {
		return nil, fmt.Errorf("result of %s: %w", method, err)
	}
	modern, err := modernMembers(o, method)
	if err != nil {
		return nil, fmt.Errorf("result of %s: %w", method, err)
	}
	if modern = modernMeta(modern, method, serverInfo); modern.is(o) {
		return result, nil
	}
	return modern.Bytes(), nil
}

func modernMembers(o Object, method string) (Object, error) {
	o = o.orElse("resultType", `"`+ResultComplete+`"`)
	if t, _ := String(o.Get("resultType")); t != ResultComplete {
		return o, nil // what follows belongs to complete results only
	}
	switch method {
	case "tools/list":
		tools, err := withoutExecution(o.Get("tools"))
		if err != nil {
			return nil, err
		}
		if tools != nil {
			o = o.With("tools", tools)
		}
	case "tools/call":
		o = o.orElse("content", "[]")
	}
	if cacheable(method) {
		o = o.orElse("ttlMs", "0").orElse("cacheScope", `"private"`)
	}
	return o, nil
}

// cacheable tells the methods whose results are a CacheableResult in the schema.
func cacheable(method string) bool {
	switch method {
	case "server/discover", "tools/list", "prompts/list",
		"resources/list", "resources/templates/list", "resources/read":
		return true
	}
	return false
}

// orElse returns the object with the member set unless it has a value. Some
// servers write null for what they have not set; that is no value here.
func (o Object) orElse(name, value string) Object {
	if v := o.Get(name); v != nil && !isNull(v) {
		return o
	}
	return o.With(name, Raw(value))
}

func modernMeta(o Object, method string, serverInfo Raw) Object {
	if isNull(o.Get("_meta")) {
		o = o.Without("_meta")
	}
	was, ok := o.Object("_meta")
	if o.Get("_meta") != nil && !ok {
		return o // not ours to mend
	}
	meta := was
	if method == "tools/call" {
		meta = meta.Without(MetaRelatedTask)
	}
	if serverInfo != nil {
		meta = meta.orElse(MetaServerInfo, string(serverInfo))
	}
	switch {
	case len(meta) == 0:
		return o.Without("_meta")
	case meta.is(was):
		return o
	}
	return o.With("_meta", meta.Bytes())
}

// withoutExecution drops execution from each tool of the array; nil stays nil.
func withoutExecution(tools Raw) (Raw, error) {
	if tools == nil {
		return nil, nil
	}
	list, err := splitArray(tools)
	if err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	for i, raw := range list {
		tool, err := splitObject(raw)
		if err != nil {
			return nil, fmt.Errorf("tools[%d]: %w", i, err)
		}
		if tool.Get("execution") != nil {
			list[i] = tool.Without("execution").Bytes()
		}
	}
	return JoinArray(list), nil
}

// JoinArray writes a JSON array of the values.
func JoinArray(list []Raw) Raw {
	out := Raw("[")
	for i, v := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

// ModernError turns a legacy server's error object into one that 2026-07-28
// allows: -32002, resource not found, is -32602 there, and -32042, an elicitation
// by URL is required, is no error there at all (see URLElicitations) and becomes
// -32603. Message and data stay; so does every other error, byte for byte.
func ModernError(e Raw) Raw {
	o, err := splitObject(e)
	if err != nil {
		return e
	}
	switch string(o.Get("code")) {
	case strconv.Itoa(CodeLegacyNotFound):
		return o.With("code", strconv.AppendInt(nil, CodeInvalidParams, 10)).Bytes()
	case strconv.Itoa(CodeLegacyURLRequired):
		return o.With("code", strconv.AppendInt(nil, CodeInternal, 10)).Bytes()
	}
	return e
}

// URLElicitations are the elicitations that the error -32042 of 2025-11-25
// (client/elicitation#url-elicitation-required-error) lists, as inputRequests;
// nil for every other error.
func URLElicitations(e Raw) Object {
	o, err := splitObject(e)
	if err != nil || string(o.Get("code")) != strconv.Itoa(CodeLegacyURLRequired) {
		return nil
	}
	data, _ := o.Object("data")
	list, err := splitArray(data.Get("elicitations"))
	if err != nil {
		return nil
	}
	var requests Object
	for i, params := range list {
		request := Object{}.With("method", Quote(MethodElicit)).With("params", params)
		requests = requests.With("url"+strconv.Itoa(i+1), request.Bytes())
	}
	return requests
}
