package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

const (
	sampleEvery = 50 * time.Millisecond
	showEvery   = 250 * time.Millisecond
)

// watch samples the store until all commands have ended, ctx ends or nothing moves any more; half-way it kills a worker if asked to.
func (r *run) watch(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	var shown, moved time.Time
	var progress [2]int
	killed := !r.cfg.Kill
	for {
		now := time.Now()
		snap, err := r.snapshot(ctx, now)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		over := snap.Ended() >= r.cfg.Commands
		if now.Sub(shown) >= showEvery || over {
			snap.Checks, snap.Lateness = r.late.Count(), r.late.Quantiles()
			r.view.Show(snap)
			shown = now
		}
		if over {
			return nil
		}
		if p := [2]int{snap.Launched, snap.Ended()}; p != progress || moved.IsZero() {
			progress, moved = p, now
		} else if now.Sub(moved) > r.cfg.stuckAfter() {
			return fmt.Errorf("nothing was launched and nothing ended for %v", r.cfg.stuckAfter())
		}
		if !killed && snap.Launched >= (r.cfg.Commands+1)/2 {
			killed = true
			if err := r.team.kill(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// snapshot reads everything that a person may want to see, and feeds the stall meter.
func (r *run) snapshot(ctx context.Context, now time.Time) (Snapshot, error) {
	st, err := r.store.Stats(ctx, store.StatsRequest{Queues: []string{r.queue}, Overview: true})
	if err != nil {
		return Snapshot{}, err
	}
	var q store.QueueStats
	if len(st.Queues) > 0 {
		q = st.Queues[0]
	}
	cloud := r.cloud.Stats(time.Now())
	in, re := q.Lanes[twolane.Intake], q.Lanes[twolane.Repoll]
	s := Snapshot{
		Store: r.cfg.Store, Elapsed: now.Sub(r.started), Commands: r.cfg.Commands, Workers: r.team.views(),
		Waiting: in.InLine, Scheduled: q.Scheduled, Leased: in.Leased + re.Leased, Parked: re.InLine,
		Succeeded: q.Succeeded, Failed: q.Failed, Cancelled: q.Cancelled,
		APIRate: r.cfg.Rate, APICalls: cloud.CallsPerSecond, APIMax: cloud.CallsPerSecondMax, Throttled: cloud.Throttled, APIErrors: cloud.Errors,
		Launched: cloud.Launched, Live: cloud.Live, LiveMax: cloud.LiveMax,
	}
	rates := [2]float64{r.intakeRate().Limit, repollShare * r.cfg.Rate}
	free := 0
	for lane, l := range q.Lanes {
		name := twolane.Lane(lane).String()
		v := LaneView{Name: name, Eligible: l.Eligible, AtLeast: l.AtLeast, Started: float64(cloud.Began[name]), Rate: rates[lane]}
		if l.OldestEligible != 0 {
			v.Oldest = max(0, st.AsOf.Sub(l.OldestEligible))
		}
		for _, w := range s.Workers {
			held := cloud.Invocations[w.Name+"/"+name]
			v.Held += held
			if w.State == stateRunning {
				v.Permits += r.cfg.Concurrency
				if lane == int(twolane.Intake) {
					free += max(0, r.cfg.Concurrency-held)
				}
			}
		}
		s.Lanes[lane] = v
	}
	r.stall.Sample(now, in.Eligible, free)
	return s, nil
}

// result adds up what the records, the cloud and the audit say.
func (r *run) result(ctx context.Context, total time.Duration) (Result, error) {
	cloud := r.cloud.Stats(time.Now())
	res := Result{
		Store: r.cfg.Store, Commands: r.cfg.Commands, Launched: cloud.Launched, DuplicateRuns: cloud.DuplicateRuns,
		TotalSeconds: round(total.Seconds(), 0.01), LongestIntakeStall: round(r.stall.Longest().Seconds(), 0.001),
		PollLatenessMS: r.late.Quantiles(), APICallsPerSecond: cloud.CallsPerSecondMax, Throttled: cloud.Throttled,
		LiveMax: cloud.LiveMax,
	}
	if !cloud.LastLaunch.IsZero() {
		res.LaunchSeconds = round(cloud.LastLaunch.Sub(r.started).Seconds(), 0.01)
	}
	for _, what := range cloud.Duplicates {
		r.log.Warn("duplicate run", "what", what)
	}
	for ids := r.ids; len(ids) > 0; {
		n := min(len(ids), 200)
		found, err := r.store.Get(ctx, ids[:n], store.GetOptions{})
		if err != nil {
			return res, err
		}
		for _, c := range found {
			res.count(c)
		}
		ids = ids[n:]
	}
	report, err := r.client.Audit(ctx)
	if err != nil {
		return res, err
	}
	res.Audit = "ok"
	if len(report.Violations) > 0 {
		res.Audit = report.Violations[0]
	}
	return res, nil
}

// count adds one record; a missing one is lost.
func (r *Result) count(c *store.Command) {
	if c == nil {
		r.Lost++
		return
	}
	r.Polls += c.Polls
	for _, e := range c.Events {
		if e.Kind == store.EventLost || e.Kind == store.EventClaimLost {
			r.LeaseLosses++
		}
	}
	switch c.Status {
	case store.Succeeded:
		r.Succeeded++
	case store.Failed:
		r.Failed++
	case store.Cancelled:
		r.Cancelled++
	default:
		r.Lost++
	}
}
