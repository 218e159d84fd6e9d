package twolane

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane/internal/dispatch"
	"github.com/twolane/twolane/store"
)

// observer turns what the dispatch loop tells into metrics, log lines and hook calls. Metrics are set at once; logs and hooks, which may
// block, have a goroutine of their own.
type observer struct {
	w      *Worker
	series map[seriesKey]Series // only the loop's goroutine
	starve [2]string            // reason in the gauge, by lane
	last   time.Duration        // when the gauges were set

	loop   *dispatch.Loop
	closer *keyCloser

	tasks   chan func()
	ctx     context.Context // until close
	stop    context.CancelFunc
	dropped atomic.Int64
	wg      sync.WaitGroup
}

type seriesKey struct {
	m       *Metric
	a, b, c string
}

var starveReasons = []string{"permits", "rate", "throttled", "limit", "gate", "queue_paused", "no_worker", "store", "unsettled", "suspect"}

func newObserver(w *Worker, loop *dispatch.Loop) *observer {
	o := &observer{w: w, loop: loop, series: map[seriesKey]Series{}, tasks: make(chan func(), 256)}
	o.wg.Go(func() {
		for f := range o.tasks {
			o.call(f)
		}
	})
	ctx, stop := context.WithCancel(context.Background())
	o.closer, o.ctx, o.stop = newKeyCloser(w.client, w.log, w.cfg.Gates, loop.KeysClosed), ctx, stop
	if len(w.cfg.Gates) > 0 {
		o.wg.Go(func() { o.closer.run(ctx) })
	}
	o.init()
	return o
}

// close waits for the log lines and hooks that are due.
func (o *observer) close() {
	o.stop()
	close(o.tasks)
	o.wg.Wait()
}

// init makes the series that are known from the start, so that they are there at zero.
func (o *observer) init() {
	for _, l := range store.Lanes {
		lane := l.String()
		o.get(metricPermits, lane, "held")
		o.get(metricPermits, lane, "free")
		for _, why := range starveReasons {
			o.get(metricStarved, lane, why)
		}
		for _, q := range o.w.cfg.Queues {
			o.get(metricRemaining, q.Name)
			o.get(metricWait, q.Name, lane)
			o.get(metricGivenBack, q.Name, lane)
			o.get(metricLateness, q.Name)
		}
	}
	for i := range o.w.cfg.Gates {
		g := &o.w.cfg.Gates[i]
		for _, l := range store.Lanes {
			if g.On(l) {
				for _, why := range gateReasons {
					o.get(metricGateDecisions, g.Name, l.String(), why)
				}
				o.get(metricLimits, gateLimits+g.Name, l.String(), dispatch.LimitRefused) // other limits are not known yet
			}
			if g.On(l) && g.Per == 0 && g.Class == "" {
				for _, m := range []*Metric{metricGateOpen, metricGateBudget, metricGateValue, metricGateThreshold, metricGateUp, metricGateRunning} {
					o.get(m, g.Name, l.String(), "")
				}
			}
		}
	}
	for _, b := range o.w.bindings {
		o.get(metricPanics, b.typ)
		for _, q := range o.w.cfg.Queues {
			for _, m := range []*Metric{metricLost, metricStale, metricTooLong} {
				o.get(m, q.Name, b.typ)
			}
			for k := store.OutcomeDone; k <= store.OutcomeAbandon; k++ {
				o.get(metricOutcomes, q.Name, b.typ, k.String())
			}
			for _, l := range store.Lanes {
				if b.lanes[l] {
					for _, m := range []*Metric{metricInvocations, metricRetries, metricRun} {
						o.get(m, q.Name, l.String(), b.typ)
					}
				}
			}
		}
	}
	for _, call := range []string{"claim", "renew", "settle", "maintain", "stats", "watch"} {
		o.get(metricCallErrors, call)
	}
	for _, m := range workerMetrics {
		if len(m.Labels) == 0 {
			o.get(m)
		}
	}
	o.get(metricCall, "claim")
	o.get(metricCall, "renew")
}

// get returns the series of m with up to three label values.
func (o *observer) get(m *Metric, v ...string) Series {
	k := seriesKey{m: m}
	for i, p := range [...]*string{&k.a, &k.b, &k.c} {
		if i < len(v) {
			*p = v[i]
		}
	}
	s := o.series[k]
	if s == nil {
		s = o.w.cfg.Metrics.Series(m, append([]string(nil), v...)...)
		o.series[k] = s
	}
	return s
}

// later queues a log line or hook call.
func (o *observer) later(f func()) {
	select {
	case o.tasks <- f:
	default:
		o.get(metricHooksDropped).Add(1)
		o.dropped.Add(1)
	}
}

// call runs f and contains its panic.
func (o *observer) call(f func()) {
	defer func() {
		if v := recover(); v != nil {
			o.w.log.Error("a hook panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	if n := o.dropped.Swap(0); n > 0 {
		o.w.log.Warn("hook calls and log lines were dropped: those before them took too long", "dropped", n)
	}
	f()
}

func (o *observer) log(level slog.Level, msg string, args ...any) {
	o.later(func() { o.w.log.Log(context.Background(), level, msg, args...) })
}

// event is called by the loop.
func (o *observer) event(e *dispatch.Event) {
	switch e.Kind {
	case dispatch.Started:
		lane := e.Lane.String()
		o.get(metricInvocations, e.Queue, lane, e.Type).Add(1)
		o.remaining(e)
		o.get(metricWait, e.Queue, lane).Observe(max(0, e.D.Seconds()))
		if e.Lane == Repoll && !e.Inv.Class.Visit() {
			o.get(metricLateness, e.Queue).Observe(max(0, e.D.Seconds()))
		}
	case dispatch.Ended:
		o.get(metricRun, e.Queue, e.Lane.String(), e.Type).Observe(e.D.Seconds())
		if e.Inv.Panic != nil {
			o.get(metricPanics, e.Type).Add(1)
			o.log(slog.LevelError, "a handler panicked", append(o.about(e), "error", e.Inv.Panic)...)
		}
	case dispatch.Finished:
		o.finished(e)
	case dispatch.LeaseLost:
		o.get(metricLost, e.Queue, e.Type).Add(1)
		o.log(slog.LevelWarn, "a lease was lost while its handler ran", append(o.about(e), "why", e.Text)...)
		if f := o.w.cfg.Hooks.LeaseLost; f != nil {
			id := e.Item.Cmd.ID
			o.later(func() { f(id) })
		}
	case dispatch.Margin:
		o.get(metricMargin).Observe(e.F)
	case dispatch.RenewDone:
		o.get(metricCall, "renew").Observe(e.D.Seconds())
		o.upkept()
	case dispatch.ClaimDone:
		o.get(metricCall, "claim").Observe(e.D.Seconds())
		o.upkept()
	case dispatch.StoreFailed:
		o.get(metricCallErrors, e.Text).Add(1)
		if e.N == 1 || e.N%12 == 0 { // about once a minute
			o.log(slog.LevelWarn, "the store does not answer", "call", e.Text, "error", e.Err, "failures_in_a_row", e.N)
		}
	case dispatch.StoreBack:
		o.log(slog.LevelInfo, "the store answers again", "call", e.Text, "after", e.D)
	case dispatch.RunTooLong:
		o.get(metricTooLong, e.Queue, e.Type).Add(1)
		o.log(slog.LevelWarn, "a handler has run for its maximum run time: its context was ended", append(o.about(e), "run_seconds", e.D.Seconds())...)
	case dispatch.MarkedOverdue:
		o.log(slog.LevelWarn, "a handler ignores the end of its context", append(o.about(e), "since", e.D)...)
		if f := o.w.cfg.Hooks.Overdue; f != nil {
			id, by := e.Inv.Items[0].Cmd.ID, e.D
			o.later(func() { f(id, by) })
		}
	case dispatch.Abandoned:
		o.log(slog.LevelError, "a handler that ignores its context was abandoned: restart this worker", o.about(e)...)
	case dispatch.Returned:
		o.log(slog.LevelInfo, "an overdue handler has returned", append(o.about(e), "after", e.D)...)
	case dispatch.GaveBack:
		o.get(metricGivenBack, e.Queue, e.Lane.String()).Add(1)
	case dispatch.Starving, dispatch.StarvationOver:
		o.starving(e)
	case dispatch.Unclaimable:
		o.get(metricUnclaimable, e.Queue, e.Lane.String(), e.Type).Set(float64(e.N))
	case dispatch.LimitDecided:
		o.get(metricLimits, o.limitLabel(e.Text), e.Lane.String(), e.Detail).Add(float64(e.N))
	case dispatch.GateDecided, dispatch.GateClosed, dispatch.GateOpen, dispatch.GateSource, dispatch.GateKey:
		o.gateEvent(e)
	case dispatch.Reaped:
		o.get(metricLosses).Add(float64(e.N))
		o.get(metricExpirations).Add(float64(e.M))
	case dispatch.Refused:
		o.log(slog.LevelError, "the store refused an outcome as invalid", append(o.about(e), "error", e.Err)...)
	case dispatch.DrainStarted:
		o.log(slog.LevelInfo, "draining", "commands", e.N, "budget", e.D)
	case dispatch.Drained:
		o.log(slog.LevelInfo, "drained", "commands", e.N, "took", e.D)
	}
}

// upkept tells the client that a call has done its upkeep, and that the next claim is about a poll interval away: it need not come between.
func (o *observer) upkept() {
	ahead := time.Duration(0)
	if o.w.cfg.PollInterval <= tickEvery {
		ahead = tickEvery * 8 / 10 // polls come within 1.1 of their interval and a call
	}
	o.w.client.upkept.Store(time.Now().Add(ahead).UnixNano())
}

// about names an invocation in a log line, with keys of its own slice.
func (o *observer) about(e *dispatch.Event) []any {
	it := e.Item
	if it == nil {
		it = e.Inv.Items[0]
	}
	a := []any{"queue", e.Queue, "lane", e.Lane.String(), "type", e.Type, "id", it.Cmd.ID, "lease", it.Cmd.Lease.String()}
	if n := len(e.Inv.Items); e.Item == nil && n > 1 {
		a = append(a, "batch", n)
	}
	return a
}

func (o *observer) finished(e *dispatch.Event) {
	switch e.State {
	case store.SettleDone, store.SettleAlready:
		o.get(metricOutcomes, e.Queue, e.Type, e.Outcome.String()).Add(1)
		if e.Outcome == store.OutcomeRetry {
			o.get(metricRetries, e.Queue, e.Lane.String(), e.Type).Add(1)
		}
	case store.SettleLost:
		o.get(metricStale, e.Queue, e.Type).Add(1)
		o.log(slog.LevelWarn, "an outcome was refused: its lease is not current", append(o.about(e), "outcome", e.Outcome.String())...)
	case store.SettleUnknown:
		o.log(slog.LevelInfo, "an outcome was sent again too late to tell whether it was taken", append(o.about(e), "outcome", e.Outcome.String())...)
	}
}

func (o *observer) starving(e *dispatch.Event) {
	lane := e.Lane.String()
	if why := o.starve[e.Lane]; why != "" {
		o.get(metricStarved, lane, why).Set(0)
		o.starve[e.Lane] = ""
	}
	if e.Kind == dispatch.StarvationOver {
		o.log(slog.LevelInfo, "the lane goes on", "lane", lane, "reason", e.Text, "after", e.D)
		if f := o.w.cfg.Hooks.StarvingOver; f != nil {
			l, d := e.Lane, e.D
			o.later(func() { f(l, d) })
		}
		return
	}
	o.starve[e.Lane] = e.Text
	o.get(metricStarved, lane, e.Text).Set(1)
	s := Starvation{Lane: e.Lane, Queue: e.Queue, Eligible: e.N, Oldest: e.D, Reason: e.Text, Detail: e.Detail}
	o.later(func() {
		args := []any{"lane", lane, "queue", s.Queue, "reason", s.Reason}
		if s.Reason == string(WaitLimit) {
			if s.Limit = o.limitOf(s.Detail); s.Limit != nil {
				s.Detail = s.Limit.text()
				args = append(args, s.Limit.args()...)
			}
		}
		args = append(args, "detail", s.Detail, "eligible", s.Eligible, "oldest_age", s.Oldest)
		o.w.log.Warn("a lane has eligible work and starts nothing", args...)
		if f := o.w.cfg.Hooks.Starving; f != nil {
			f(s)
		}
	})
}

// limitOf asks the store how a limit stands, given as name or name=value; nil if it does not answer soon, or knows of none.
func (o *observer) limitOf(key string) *LimitWait {
	ctx, cancel := context.WithTimeout(o.ctx, limitPatience)
	defer cancel()
	name, value, _ := strings.Cut(key, "=")
	st, err := o.w.client.limit(ctx, store.LimitKey{Limit: name, Value: value})
	if err != nil {
		return nil
	}
	cfg, err := o.w.client.Config(ctx)
	if err != nil {
		return nil
	}
	w := limitWait(&st, slices.ContainsFunc(cfg.Limits, func(l Limit) bool { return l.Name == name && l.Rate > 0 }))
	w.Never = len(st.Filed) > 0 && !slices.ContainsFunc(st.Filed, func(f store.FiledLine) bool { return !f.Never })
	return w
}

const limitPatience = 2 * time.Second

// limitLabel keeps the label bounded: gates name their limits after the keys that they close.
func (o *observer) limitLabel(name string) string {
	rest, ok := strings.CutPrefix(name, gateLimits)
	if !ok {
		return name
	}
	for i := range o.w.cfg.Gates {
		if g := o.w.cfg.Gates[i].Name; strings.HasPrefix(rest, g+".") {
			return gateLimits + g
		}
	}
	return "gate"
}

// remaining notes how much time commands with a deadline have left when their handler starts.
func (o *observer) remaining(e *dispatch.Event) {
	for _, it := range e.Inv.Items {
		if d := it.Left(); d > 0 {
			o.get(metricRemaining, e.Queue).Observe(d.Seconds())
		}
	}
}

// gauges sets what is read from the loop's condition, at most four times a second.
func (o *observer) gauges(p *dispatch.Pulse) {
	if p.At-o.last < 250*time.Millisecond && o.last != 0 {
		return
	}
	o.last = max(p.At, 1)
	for _, l := range store.Lanes {
		o.get(metricPermits, l.String(), "held").Set(float64(p.Held[l]))
		o.get(metricPermits, l.String(), "free").Set(float64(p.Free[l]))
	}
	o.get(metricTickAge).Set((p.At - max(p.Renew, o.w.started)).Seconds())
	o.get(metricClaimAge).Set((p.At - max(p.Claim, o.w.started)).Seconds())
	o.get(metricLeases).Set(float64(p.Leases))
	o.get(metricUnsettled).Set(float64(p.Unsettled))
	o.get(metricStuck).Set(float64(p.Overdue))
	o.gateGauges()
}
