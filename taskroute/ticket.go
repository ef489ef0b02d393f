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

// Overdue tells a record that is parked on questions whose time is over.
func (r *Record) Overdue(now time.Time) bool {
	at := r.Input.Deadline
	return r.State.Status == InputRequired && r.State.Holder == "" && !at.IsZero() && !now.Before(at)
}
