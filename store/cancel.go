package store

// CancelRequest asks for the end of commands.
type CancelRequest struct {
	IDs    []string
	Reason string // for people
	// Force ends each in this step wherever it is, without a visit; a lease that it has is broken.
	Force bool
}

// CancelState is what became of one request to cancel.
type CancelState uint8

const (
	CancelEnded     CancelState = iota + 1 // CANCELLED now
	CancelRequested                        // it is leased, or a cancel visit is due
	CancelTooLate                          // it had ended before
	CancelNotFound
)

func (s CancelState) String() string {
	return [...]string{"", "cancelled", "requested", "too_late", "not_found"}[min(int(s), 4)]
}

// CancelResult answers for one id. The same request again gets the same answer.
type CancelResult struct {
	State  CancelState
	Status Status
}
