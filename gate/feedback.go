package gate

import "time"

// Listener is a gate that learns from how handlers fare. Feedback is called in the dispatch loop and must not block.
type Listener interface {
	Gate
	Feedback(f Feedback)
}

// Feedback is how one invocation ended for one command under a gate.
type Feedback struct {
	Scope  Scope
	Signal Signal
	Sent   time.Time     // when the handler was called
	At     time.Time     // when it had answered
	After  time.Duration // what a throttled one was told to wait; 0 is unknown
	Queued time.Duration // how long the backend says that the request has waited in it; 0 is unknown
}

// Signal is what an invocation tells about the backend that it used.
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
