package proctest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Kinds of events. Calls at the store are written twice where it matters that they were sent.
const (
	evReady  = "ready"  // a worker's first heartbeat was taken
	evStart  = "start"  // a handler was called
	evFenced = "fenced" // the context of an invocation ended; Text is the cause
	evEnd    = "end"    // a handler returned
	evTicks  = "ticks"  // a handler looks at the clock from now on
	evAwake  = "awake"  // a handler found that its process had been stopped; Text is what the library said at the next call
	evHealth = "health" // Text is why it is not well, empty if it is
	evDown   = "down"   // Run has returned; Text is its error
	evSubmit = "submit" // acknowledged
	evClaim  = "claim"  // answered
	evRenew  = "renew"  // answered
	evSend   = "send"   // a settle was sent
	evSettle = "settle" // answered
	evRead   = "read"   // a command was read
	evKill   = "kill"   // Text is the process that is dead now; Sent is when the signal was sent
	evStop   = "stop"   // Text is the process that does not run now
	evResume = "resume" // Text is the process that is about to run again
	evFault  = "fault"  // something was done to the store
	evUser   = "user"   // a user did something to commands; Text is what
	evHeal   = "heal"   // and undone
)

// event is a line of a side file. Times are nanoseconds of the machine's clock, which all processes share.
type event struct {
	At    int64  `json:"at"`
	Sent  int64  `json:"sent,omitempty"` // of a call: when it was sent
	Proc  string `json:"proc"`
	Kind  string `json:"kind"`
	Text  string `json:"text,omitempty"`
	Items []item `json:"items,omitempty"`
}

// item is one command of an event.
type item struct {
	ID       string `json:"id"`
	Lease    string `json:"lease,omitempty"`
	Outcome  string `json:"outcome,omitempty"` // of a settle or handler
	State    string `json:"state,omitempty"`   // what the store answered
	Starts   int    `json:"starts,omitempty"`
	Failures int    `json:"failures,omitempty"`
	Losses   int    `json:"losses,omitempty"`
}

func now() int64 { return time.Now().UnixNano() }

// journal is the side file of one process: every event is one write, so that a killed process leaves whole lines.
type journal struct {
	proc string
	mu   sync.Mutex
	file *os.File
}

func openJournal(path, proc string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{proc: proc, file: f}, nil
}

// add writes an event. A test whose books cannot be kept is no test: it panics.
func (j *journal) add(e event) {
	e.Proc = j.proc
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.At == 0 {
		e.At = now()
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("journal of %s: %v", j.proc, err))
	}
}

// tail reads what was added to a side file since the last call.
type tail struct {
	path string
	at   int64
}

func (t *tail) read() ([]event, error) {
	f, err := os.Open(t.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, t.at, 1<<40))
	if err != nil {
		return nil, err
	}
	var events []event
	for {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return events, nil // the end of it is being written
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", t.path, line, err)
		}
		events = append(events, e)
		t.at += int64(len(line)) + 1
		data = rest
	}
}
