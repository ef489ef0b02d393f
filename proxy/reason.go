package proxy

import (
	"taskgate/policy"
	"taskgate/wire"
)

// metaPolicy is the member of a result's _meta that says which rule decided.
const metaPolicy = "taskgate/policy"

// withReason adds to a result of tools/call which rule decided, and where it is
// written, if Options let clients know.
func (h *Handler) withReason(result wire.Raw, d policy.Decision) wire.Raw {
	if !h.opts.PolicyInMeta {
		return result
	}
	o, err := wire.ParseObject(result)
	if err != nil { // there is an error instead
		return result
	}
	reason := wire.Object{}.With("rule", wire.Quote(d.Rule)).With("source", wire.Quote(d.Source))
	meta, _ := o.Object("_meta")
	return o.With("_meta", meta.With(metaPolicy, reason.Bytes()).Bytes()).Bytes()
}
