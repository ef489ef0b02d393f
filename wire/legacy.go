package wire

import "strconv"

// LegacyResult turns a result of 2026-07-28 into one that a client of 2025-11-25
// or earlier knows: it drops what ModernResult adds. Every other value keeps its
// bytes.
func LegacyResult(result Raw) Raw {
	o, err := splitObject(result)
	if err != nil {
		return result
	}
	o = o.Without("resultType", "ttlMs", "cacheScope")
	meta, ok := o.Object("_meta")
	if !ok {
		return o.Bytes()
	}
	if meta = meta.Without(MetaServerInfo); len(meta) == 0 {
		return o.Without("_meta").Bytes()
	}
	return o.With("_meta", meta.Bytes()).Bytes()
}

// LegacyError turns an error object that answers method in 2026-07-28 into one
// of 2025-11-25: a resource that is not there has a code of its own, and what
// only the new protocol can complain of is an invalid request. Message and data
// stay; so does every other error, byte for byte.
func LegacyError(method string, e Raw) Raw {
	o, err := splitObject(e)
	if err != nil {
		return e
	}
	data, _ := o.Object("data")
	code, _ := strconv.Atoi(string(o.Get("code")))
	switch {
	case code == CodeInvalidParams && method == "resources/read" && data.Get("uri") != nil:
		code = CodeLegacyNotFound
	case code == CodeHeaderMismatch || code == CodeMissingCapability || code == CodeUnsupportedVersion:
		code = CodeInvalidRequest
	default:
		return e
	}
	return o.With("code", strconv.AppendInt(nil, int64(code), 10)).Bytes()
}
