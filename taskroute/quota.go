package taskroute

import "fmt"

// Usage is what the documents of an owner come to.
type Usage struct {
	Open  int   // documents that are open
	Bytes int64 // of the parts of all of them, also of the ended ones
}

// OverLimitError: an owner has as much as it may have. Limit has the member that
// was hit, and the other one zero.
type OverLimitError struct{ Limit Usage }

func (e *OverLimitError) Error() string {
	if e.Limit.Open > 0 {
		return fmt.Sprintf("too many open tasks: the limit is %d; wait for some to end, or cancel them", e.Limit.Open)
	}
	return fmt.Sprintf("too much is stored: the limit is %d bytes; tasks, with their parameters and results, give their room back when their ttl is over", e.Limit.Bytes)
}

// Within fails with *OverLimitError when an owner that has used so much, or will
// have with the document, would be over the document's limit. A limit of 0 means none.
func (d Doc) Within(used Usage) error {
	switch {
	case d.Limit.Open > 0 && used.Open >= d.Limit.Open:
		return &OverLimitError{Usage{Open: d.Limit.Open}}
	case d.Limit.Bytes > 0 && used.Bytes+d.Size() > d.Limit.Bytes:
		return &OverLimitError{Usage{Bytes: d.Limit.Bytes}}
	}
	return nil
}
