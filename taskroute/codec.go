package taskroute

import (
	"encoding/json"
	"fmt"
	"strings"
)

// encode makes the document of a record, with the parts of set.
func (s *Store) encode(r *Record, set partSet) (Doc, error) {
	st := &r.State
	d := Doc{
		ID: r.ID, Revision: r.Revision, Open: !st.Status.Terminal(), Runnable: st.Status == Working,
		Holder: st.Holder, Owner: st.Owner.String(), ExpiresAt: st.ExpiresAt(),
	}
	if !d.ExpiresAt.IsZero() {
		d.ForgetAt = d.ExpiresAt.Add(s.opts.Tombstone)
	}
	parts := [NumParts]any{PartState: st, PartInput: &r.Input, PartOutcome: &r.Outcome, PartRequest: &r.Request}
	for p, v := range parts {
		if set&(1<<p) == 0 {
			continue
		}
		b, err := json.Marshal(v)
		if err != nil {
			return Doc{}, fmt.Errorf("encode task: %w", err)
		}
		d.Parts[p] = b
	}
	return d, nil
}

func decode(d Doc) (*Record, error) {
	r := &Record{ID: d.ID, Revision: d.Revision}
	parts := [NumParts]any{PartState: &r.State, PartInput: &r.Input, PartOutcome: &r.Outcome, PartRequest: &r.Request}
	for p, v := range parts {
		if d.Parts[p] == nil {
			continue
		}
		if err := json.Unmarshal(d.Parts[p], v); err != nil {
			return nil, fmt.Errorf("stored task is damaged: %w", err)
		}
	}
	return r, nil
}

// String is the owner as one string; tenants and subjects are length-safe
// because the separator is escaped.
func (o Owner) String() string {
	return ownerEscape.Replace(o.Tenant) + "/" + ownerEscape.Replace(o.Subject)
}

var (
	ownerEscape   = strings.NewReplacer("%", "%25", "/", "%2F")
	ownerUnescape = strings.NewReplacer("%2F", "/", "%25", "%")
)

func parseOwner(s string) Owner {
	tenant, subject, _ := strings.Cut(s, "/")
	return Owner{Tenant: ownerUnescape.Replace(tenant), Subject: ownerUnescape.Replace(subject)}
}
