package simrt

import (
	"context"
	"errors"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/faultstore"
)

// add notes a command before anybody can see it.
func (w *world) add(sub twolane.Submission) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cmds[sub.ID] == nil {
		w.cmds[sub.ID] = &command{sub: sub}
		w.ids = append(w.ids, sub.ID)
	}
}

// chaos submits and operates while things go wrong.
func (w *world) chaos() {
	if !w.calm {
		p := []float64{0, 0.1, 0.25}[w.rng.IntN(3)]
		for _, m := range w.team {
			w.disturb(m.faults, p)
		}
		w.disturb(w.own, p/2)
	}
	types := []string{"quick", "long", "hook", "batch"}
	for end := time.Now().Add(time.Duration(10+w.rng.IntN(15)) * time.Second); time.Now().Before(end); {
		time.Sleep(time.Duration(w.rng.IntN(700)) * time.Millisecond)
		var subs []twolane.Submission
		for range w.rng.IntN(3) {
			sub := twolane.Submission{
				ID: fmt.Sprintf("c%03d", w.next), Type: types[w.rng.IntN(4)], Queue: []string{"a", "b"}[w.rng.IntN(2)], Params: params{w.rng.IntN(100)},
			}
			w.next++
			switch w.rng.IntN(10) {
			case 0:
				sub.Deadline = time.Now().Add(time.Duration(w.rng.IntN(8000)) * time.Millisecond)
			case 1:
				sub.Delay = time.Duration(w.rng.IntN(5000)) * time.Millisecond
			case 2:
				sub.MaxFailures = 2
			}
			subs = append(subs, sub)
		}
		for _, sub := range subs {
			w.add(sub)
		}
		if len(subs) > 0 {
			w.submit(subs)
		}
		w.operate()
	}
}

// submit submits until it is answered.
func (w *world) submit(subs []twolane.Submission) {
	for try := range 50 {
		res, err := w.client.SubmitMany(w.Context(), subs, nil)
		if err == nil {
			for i := range res {
				err = errors.Join(err, res[i].Err)
			}
		}
		if err == nil {
			return
		}
		if try == 49 {
			w.Fatalf("submit: %v", err)
		}
	}
}

// disturb lets calls fail in each way with probability p in all.
func (w *world) disturb(f *faultstore.Faults, p float64) {
	if p == 0 {
		return
	}
	f.Inject(
		faultstore.Rule{Fault: faultstore.FailBefore, P: p / 5}, faultstore.Rule{Fault: faultstore.DropReply, P: p / 5}, faultstore.Rule{Fault: faultstore.Hang, P: p / 5},
		faultstore.Rule{Fault: faultstore.HangReply, P: p / 5}, faultstore.Rule{Fault: faultstore.Delay, Delay: time.Duration(w.rng.Int64N(int64(w.v))), P: p / 5},
		faultstore.Rule{Ops: []faultstore.Op{faultstore.Wake}, Fault: faultstore.FailBefore, P: p},
	)
}

// operate is one thing that users or fate do. Errors are the faults': what was done shows in the end.
func (w *world) operate() {
	w.mu.Lock()
	var ids []string
	if len(w.ids) > 0 {
		ids = []string{w.ids[w.rng.IntN(len(w.ids))]}
	}
	w.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
	defer cancel()
	i := w.rng.IntN(len(w.team))
	switch x := w.rng.IntN(30); {
	case x < 3:
		_, _ = w.client.Cancel(ctx, ids, nil)
	case x < 4:
		w.breaks(ids[0], false)
		_, _ = w.client.Cancel(ctx, ids, &twolane.CancelOptions{Force: true})
		w.breaks(ids[0], false)
	case x < 5:
		w.breaks(ids[0], true)
		_, _ = w.client.Delete(ctx, twolane.IDs(ids...), &twolane.ActOptions{Force: true})
		w.breaks(ids[0], true)
	case x < 7:
		_, _ = w.client.Retry(ctx, twolane.IDs(ids...), &twolane.ActOptions{Deadline: time.Now().Add(time.Minute)})
	case x < 8:
		_ = w.client.Pause(ctx, "a", twolane.PauseMode(1+w.rng.IntN(2)), time.Now().Add(time.Duration(1+w.rng.IntN(5))*time.Second))
	case x < 9:
		_ = w.configure(store.QueueConfig{CancelFor: 20 * time.Second, MaxLosses: 4, Rates: [2]store.Rate{{Limit: 3, Burst: 1}, {Limit: 5, Burst: 2}}})
	case x < 11:
		w.team[i].fire()
		w.team[i] = w.hire(i)
	case x < 12 && !w.calm: // cut off, for long enough to lose every lease
		f := w.team[i].faults
		f.Inject(faultstore.Rule{Fault: faultstore.Hang})
		time.Sleep(time.Duration(w.rng.Int64N(int64(2 * w.v))))
		f.Heal()
	}
}

// breaks notes that a user may break the lease of a command.
func (w *world) breaks(id string, deleted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cmds[id].broken++
	w.cmds[id].deleted = w.cmds[id].deleted || deleted
}

// heal ends what goes wrong and waits until every command has ended.
func (w *world) heal() {
	w.mu.Lock()
	w.healed = true
	w.mu.Unlock()
	w.own.Heal()
	for _, m := range w.team {
		m.faults.Heal()
	}
	w.must(w.configure(store.QueueConfig{CancelFor: 20 * time.Second, MaxLosses: 4}))
	var left []string
	for end := time.Now().Add(20 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		if left = w.left(); len(left) == 0 {
			break
		}
	}
	if len(left) > 0 {
		w.Errorf("nothing-lost: live 20 minutes after everything has healed: %q", left)
	}
	time.Sleep(12 * time.Second) // handlers of commands that a user ended come home
}

func (w *world) left() (left []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range w.ids {
		c, err := w.mem.Get(w.Context(), []string{id}, store.GetOptions{})
		w.must(err)
		switch cmd := w.cmds[id]; {
		case c[0] == nil && !cmd.deleted && len(id) == 4: // a follow-up may never have been submitted
			w.Errorf("nothing-lost: %s is gone", id)
		case c[0] != nil && !c[0].Status.Terminal():
			left = append(left, fmt.Sprintf("%s %s %s", id, c[0].Status, c[0].Place))
		}
	}
	return left
}

// finish looks at the idle workers, drains them and closes everything.
func (w *world) finish() {
	synctest.Wait()
	for i, m := range w.team {
		if h := m.worker.Health(); h.Held != (twolane.Lanes{}) || h.Abandoned != 0 || h.Leases != 0 || h.Unsettled != 0 {
			w.Errorf("permits: worker %d holds something with nothing to do: %+v", i, h)
		}
		m.fire()
	}
	rep, err := w.client.Audit(w.Context())
	if err != nil || len(rep.Violations) > 0 {
		w.Errorf("audit: %v %q", err, rep.Violations)
	}
	w.must(w.client.Close())
	w.must(w.mem.Close())
}
