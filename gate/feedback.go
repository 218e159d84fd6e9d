package gate

import "time"

// Listener is a gate that learns from how handlers fare. Feedback is called in the dispatch loop and must not block.
type Listener interface {
	Gate
	Feedback(f Feedback)
}

// Feedback is how one invocation ended for one command under a gate.
type Feedback struct {
	Response
	Scope Scope     // Held counts the invocation
	Sent  time.Time // when the handler was called
	At    time.Time // when it had answered
}

// Response is what a backend has told a handler about its load.
type Response struct {
	Signal Signal
	After  time.Duration // how long it asks to wait (Retry-After); 0 is unknown
	Queued time.Duration // how long the work has waited in it; 0 is unknown
	Room   *int          // how much more of the class it takes beside what runs; nil is unknown
}

// Signal is the kind of a [Response].
type Signal uint8

const (
	// Silent tells nothing: an error that has nothing to do with load, a snooze, a give-back.
	Silent Signal = iota
	// Succeeded: the backend has taken the work.
	Succeeded
	// Pushed: the backend is overloaded and said so (HTTP 429 or 503).
	Pushed
	// Expired: the backend kept the work until its time was over.
	Expired
)

func (s Signal) String() string {
	return [...]string{"silent", "succeeded", "pushed", "expired"}[min(int(s), 3)]
}
