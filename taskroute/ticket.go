package taskroute

import "time"

// Issue makes ticket the one that the next retry of a held call must present.
func (r *Record) Issue(ticket string) {
	r.Input.Ticket = ticket
	r.dirty |= partInput
}

// Redeem takes the ticket back; a ticket is good once.
func (r *Record) Redeem(ticket string) bool {
	if r.Input.Ticket == "" || r.Input.Ticket != ticket {
		return false
	}
	r.Input.Ticket = ""
	r.dirty |= partInput
	return true
}

// ChangesAt is when the record becomes another one with nobody writing it: it
// expires, or the time for its questions is over; zero: never.
func (r *Record) ChangesAt() time.Time {
	expires, asked := r.State.ExpiresAt(), r.Input.Deadline
	if r.State.Status != InputRequired || asked.IsZero() || (!expires.IsZero() && expires.Before(asked)) {
		return expires
	}
	return asked
}

// Overdue tells a record that is parked on questions whose time is over.
func (r *Record) Overdue(now time.Time) bool {
	at := r.Input.Deadline
	return r.State.Status == InputRequired && r.State.Holder == "" && !at.IsZero() && !now.Before(at)
}
