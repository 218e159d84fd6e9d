package gate

import (
	"errors"
	"testing"
	"time"

	"github.com/twolane/twolane/store"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// aimd is a window with a clock of its own.
type aimdRig struct {
	*testing.T
	a   *AIMD
	now time.Time
}

func newAIMD(t *testing.T, cfg AIMDConfig) *aimdRig {
	t.Helper()
	a, err := NewAIMD(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &aimdRig{t, a, t0}
}

func (r *aimdRig) size(class string) float64 {
	return r.a.Read(r.now, Scope{Class: class, Permits: 1000}).Value
}

// tell says how an invocation of a class ended that was sent a while ago, while held ran.
func (r *aimdRig) tell(class string, s Signal, ago time.Duration, held int) {
	r.a.Feedback(Feedback{Response: Response{Signal: s}, Scope: Scope{Class: class, Held: held}, Sent: r.now.Add(-ago), At: r.now})
}

func (r *aimdRig) want(class string, size float64) {
	r.Helper()
	if got := r.size(class); got != size {
		r.Errorf("window of %q is %v, want %v", class, got, size)
	}
}

// Fast growth until the first push, half of what ran after it, a pause, then one for each window of successes.
func TestAIMDFindsAWindow(t *testing.T) {
	r := newAIMD(t, AIMDConfig{Max: 64})
	r.want("", 1)
	for _, n := range []float64{2, 4, 8, 16, 32} { // each flight doubles it
		for i := range int(r.size("")) {
			r.tell("", Succeeded, time.Second, int(r.size(""))-i/2)
		}
		r.now = r.now.Add(time.Second)
		r.want("", n)
	}
	r.tell("", Pushed, time.Second/10, 32)
	r.want("", 16)
	for range 31 { // the rest of the flight
		r.tell("", Pushed, time.Second/10, 20)
	}
	r.want("", 16)
	for range 16 {
		r.tell("", Succeeded, time.Second, 16) // of the flight that was pushed back
	}
	r.now = r.now.Add(500 * time.Millisecond)
	for range 100 {
		r.tell("", Succeeded, time.Second/10, 16) // in the pause
	}
	r.want("", 16)
	r.now = r.now.Add(time.Second)
	for range 17 {
		r.tell("", Succeeded, time.Second/10, 16)
	}
	r.want("", 17)
	for range 100 {
		r.tell("", Succeeded, time.Second/10, 3) // less than half of it is in use
	}
	r.want("", 17)
	r.tell("", Silent, 0, 17)
	r.want("", 17)
	r.tell("", Expired, time.Second/10, 17)
	r.want("", 15) // 17.06 * 0.9
	for range 1000 {
		r.now = r.now.Add(2 * time.Second)
		r.tell("", Pushed, time.Second/10, 1)
	}
	r.want("", 1)
}

// A backend that says when to come again closes the window until then, a minute at most, and it opens small.
func TestAIMDObeysRetryAfter(t *testing.T) {
	r := newAIMD(t, AIMDConfig{Start: 40, Max: 40})
	r.a.Feedback(Feedback{Response: Response{Signal: Pushed, After: 20 * time.Second}, Scope: Scope{Held: 40}, Sent: r.now.Add(-time.Second), At: r.now})
	rd := r.a.Read(r.now, Scope{Permits: 40})
	if rd.Budget != 0 || !rd.Opens.Equal(r.now.Add(20*time.Second)) || rd.Reason != Throttled {
		t.Errorf("%+v", rd)
	}
	r.now = r.now.Add(20 * time.Second)
	if rd := r.a.Read(r.now, Scope{Permits: 40}); rd.Budget != 1.0/40 {
		t.Errorf("%+v", rd)
	}
	for i := range 19 { // fast again up to half of what it was
		r.tell("", Succeeded, time.Second, i+1)
	}
	r.want("", 20)
	r.a.Feedback(Feedback{Response: Response{Signal: Pushed, After: 24 * time.Hour}, Scope: Scope{Held: 20}, Sent: r.now, At: r.now})
	if rd := r.a.Read(r.now, Scope{}); !rd.Opens.Equal(r.now.Add(time.Minute)) {
		t.Errorf("opens at %v", rd.Opens)
	}
}

// A push in one band is evidence for those after it, and a warning to those before it; a success sent after that ends the warning.
func TestAIMDBands(t *testing.T) {
	r := newAIMD(t, AIMDConfig{Start: 16, Max: 64, Bands: []string{"high", "mid", "low"}})
	for _, b := range []string{"high", "mid", "low"} {
		r.want(b, 16)
	}
	r.now = r.now.Add(time.Second)
	r.tell("mid", Pushed, time.Second/10, 16)
	r.want("high", 16)
	r.want("mid", 8)
	r.want("low", 8)
	r.now = r.now.Add(100 * time.Millisecond)
	r.tell("high", Succeeded, time.Second, 16)
	r.want("high", 16) // it holds
	r.tell("low", Succeeded, 200*time.Millisecond, 8)
	r.tell("high", Succeeded, time.Second, 16)
	r.want("high", 16) // that success was sent before the push
	r.now = r.now.Add(100 * time.Millisecond)
	r.tell("low", Succeeded, 50*time.Millisecond, 8)
	r.tell("high", Succeeded, time.Second, 16)
	r.want("high", 17)
}

func TestAIMDListensToTheQueueAndToRoom(t *testing.T) {
	r := newAIMD(t, AIMDConfig{Start: 20, Max: 64, QueueTarget: time.Second})
	tell := func(queued time.Duration, room *int) {
		r.a.Feedback(Feedback{Response: Response{Signal: Succeeded, Queued: queued, Room: room}, Scope: Scope{Held: 20}, Sent: r.now.Add(-time.Second), At: r.now})
	}
	tell(500*time.Millisecond, nil)
	r.want("", 21)
	tell(1500*time.Millisecond, nil)
	r.want("", 21)
	tell(2500*time.Millisecond, nil)
	r.want("", 18)
	tell(0, new(-5))
	r.want("", 18)
	r.now = r.now.Add(time.Minute)
	for range 200 {
		tell(0, nil)
	}
	tell(0, new(3))
	r.want("", 23)
}

// Scopes are bounded, however many classes there are.
func TestAIMDForgetsOldScopes(t *testing.T) {
	r := newAIMD(t, AIMDConfig{})
	for i := range 3 * maxWindows {
		r.now = r.now.Add(time.Millisecond)
		r.a.Read(r.now, Scope{Class: time.Duration(i).String()})
	}
	if n := len(r.a.windows); n > maxWindows {
		t.Errorf("%d windows", n)
	}
}

func TestAIMDConfigIsChecked(t *testing.T) {
	for field, cfg := range map[string]AIMDConfig{
		"min_window": {Min: 0.5}, "max_window": {Min: 10, Max: 5}, "start_window": {Start: 1000}, "increase": {Increase: -1}, "decrease_factor": {Decrease: 1},
		"expired_factor": {ExpiredDecrease: 2}, "hold_duration": {Hold: -1}, "queue_duration_target": {QueueTarget: -1}, "bands": {Bands: []string{"a", "a"}},
	} {
		_, err := NewAIMD(cfg)
		if e, ok := errors.AsType[*store.InvalidError](err); !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
