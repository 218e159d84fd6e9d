package store

// WakeKind says what a wake-up is about.
type WakeKind uint8

const (
	WakeWork   WakeKind = iota + 1 // work became claimable in Queue and Lane
	WakeCancel                     // a cancel was asked for the leased command ID
	WakeEnd                        // the awaited command ID has ended
	WakeGroup                      // no command of the awaited group ID is live any more
	WakeConfig                     // the configuration has changed
	WakeAll                        // wake-ups may have been lost: look at everything
	WakeOutbox                     // the topic ID has a new entry
)

// Wake is one wake-up.
type Wake struct {
	Kind  WakeKind
	Queue string
	Lane  Lane
	ID    string
}

// Watcher delivers wake-ups, best effort: they may be late, lost, doubled, or about nothing.
type Watcher interface {
	// C is the channel of wake-ups. A store never blocks on it: what does not fit becomes one WakeAll. It is closed by Close.
	C() <-chan Wake
	// Await asks for WakeEnd of ids and WakeGroup of groups, beside those asked for before, until Forget or Close. An id or
	// group that had ended before may never wake: the caller reads once after Await returned.
	Await(ids, groups []string) error
	// Forget takes ids and groups back.
	Forget(ids, groups []string)
	// Close ends the watcher and waits for its goroutines.
	Close() error
}
