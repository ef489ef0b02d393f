package taskroute

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"taskgate/wire"
)

// encode makes the document of a record, with the parts of set.
func (s *Store) encode(r *Record, set partSet) (Doc, error) {
	st := &r.State
	d := Doc{
		ID: r.ID, Revision: r.Revision, Open: !st.Status.Terminal(), Runnable: st.Status == Working,
		Holder: st.Holder, Owner: st.Owner.String(), ExpiresAt: st.ExpiresAt(),
	}
	if !d.ExpiresAt.IsZero() {
		d.ForgetAt = d.ExpiresAt.Add(s.tombstone(r))
	}
	for p := range NumParts {
		if set&(1<<p) == 0 {
			continue
		}
		part, err := encodePart(r, p)
		if err != nil {
			return Doc{}, fmt.Errorf("encode task: %w", err)
		}
		if part != nil {
			d.Parts[p] = s.opts.Seal.Seal(part, r.ID, boundTo(p, st.Owner)...)
		}
	}
	return d, nil
}

// boundTo is what a sealed part is bound to beside the task's id. The owner is in
// the state itself, which therefore opens without.
func boundTo(p Part, owner Owner) []string {
	if p == PartState {
		return []string{"state"}
	}
	return []string{[NumParts]string{PartInput: "input", PartOutcome: "outcome", PartRequest: "request"}[p], owner.String()}
}

func encodePart(r *Record, p Part) ([]byte, error) {
	switch p {
	case PartState:
		return encodeJSON(&r.State)
	case PartInput:
		return encodeJSON(&r.Input)
	case PartRequest:
		return encodeJSON(&r.Request)
	}
	return encodeOutcome(r.Outcome), nil
}

// asStored is how parts are written and read: raw members stay as they are, but
// for white space between their tokens, also what others have said with < in it.
// The rest is as encoding/json has it, which wrote the first records.
var asStored = json.JoinOptions(jsonv1.DefaultOptionsV1(),
	jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false), json.MatchCaseInsensitiveNames(false))

func encodeJSON(v any) ([]byte, error) { return json.Marshal(v, asStored) }

// An outcome is kept to the byte, after one that says what it is. It may be
// large, and is passed on without being looked at.
const (
	outcomeResult = 'r'
	outcomeError  = 'e'
)

// encodeOutcome returns nil, an absent part, when there is none.
func encodeOutcome(o Outcome) []byte {
	kind, raw := byte(outcomeResult), o.Result
	if raw == nil {
		kind, raw = outcomeError, o.Error
	}
	if raw == nil {
		return nil
	}
	return append([]byte{kind}, raw...)
}

var errOutcome = errors.New("outcome is neither a result nor an error")

func decodeOutcome(b []byte) (Outcome, error) {
	switch {
	case len(b) == 0:
		return Outcome{}, nil
	case b[0] == outcomeResult:
		return Outcome{Result: wire.Raw(b[1:])}, nil
	case b[0] == outcomeError:
		return Outcome{Error: wire.Raw(b[1:])}, nil
	}
	return Outcome{}, errOutcome
}

// decode makes the record of a document. Parts that were not asked for, or are
// absent, stay zero; the state is always asked for, since it says who the owner
// is. What cannot be read gives ErrUnreadable.
func (s *Store) decode(d Doc) (*Record, error) {
	r := &Record{ID: d.ID, Revision: d.Revision}
	for p := range NumParts {
		if d.Parts[p] == nil {
			continue
		}
		part, err := s.opts.Seal.Open(d.Parts[p], d.ID, boundTo(p, r.State.Owner)...)
		if err == nil {
			err = decodePart(r, p, part)
		}
		if err == nil {
			continue
		}
		err = fmt.Errorf("%w: %w", ErrUnreadable, err)
		if p != PartState {
			err = &unreadableError{r.State, err}
		}
		return nil, err
	}
	if r.State.Format > format {
		return nil, ErrNewer
	}
	return r, nil
}

// format is what this version writes. It is raised by a change that an older
// version must not work on: members that it may ignore do not need that. A newer
// version writes its format to the records that it creates or claims, and leaves
// it as it is in those that an older one holds.
const format = 0

// ErrNewer: the record was written by a newer version of this program, in a form
// that this one must leave alone.
var ErrNewer = errors.New("task was written by a newer version of the gateway")

func decodePart(r *Record, p Part, part []byte) (err error) {
	switch p {
	case PartState:
		return json.Unmarshal(part, &r.State, asStored)
	case PartInput:
		return json.Unmarshal(part, &r.Input, asStored)
	case PartRequest:
		return json.Unmarshal(part, &r.Request, asStored)
	}
	r.Outcome, err = decodeOutcome(part)
	return err
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
