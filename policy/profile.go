package policy

import "time"

// Profile is a named set of defaults between a file's own and what is built in.
type Profile string

// Profiles.
const (
	// Sidecar suits a gateway beside its upstream in a service mesh, where a
	// request that takes 15 s is cut off.
	Sidecar Profile = "sidecar"
	// Edge suits a gateway that faces clients over the internet, whose own
	// limits begin at 30 s and for whom every poll is a round trip.
	Edge Profile = "edge"
)

// Values lists the profiles.
func (Profile) Values() []string { return []string{string(Sidecar), string(Edge)} }

func (p Profile) layer() layer {
	l := layer{level: "profile " + string(p)}
	switch p {
	case Sidecar:
		l.settings = &settings{
			PromoteAfter: ptr(promoteWait(5 * time.Second)),
			PollInterval: ptr(pollWait(time.Second)),
		}
	case Edge:
		l.settings = &settings{
			PromoteAfter: ptr(promoteWait(10 * time.Second)),
			Timeout:      ptr(time.Hour),
			TTL:          ptr(24 * time.Hour),
			PollInterval: ptr(pollWait(5 * time.Second)),
			InputTimeout: &InputTimeout{After: 30 * time.Minute, Then: Decline},
			Concurrency:  &Concurrency{Limit: 16, Queue: 64, Per: PerPrincipal, Wait: 5 * time.Minute},
		}
	}
	return l
}
