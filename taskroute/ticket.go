package taskroute

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
