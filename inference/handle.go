package inference

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/inference/wire"
)

type job = twolane.Job[[]byte, []byte]

// attempt is one try to answer a request.
type attempt struct {
	p   *Processor
	o   *pool
	q   *queue
	job *job
	m   *wire.Member
}

// handle sends one request and says how that ended.
func (o *pool) handle(ctx context.Context, j *job) (twolane.Outcome, error) {
	p := o.p
	a := &attempt{p: p, o: o, q: p.queue(j.Metadata()[metaQueue]), job: j}
	if a.q == nil { // it was taken out of the configuration while the request waited
		return twolane.Snooze(30 * time.Second), nil
	}
	if lane, is := a.misplaced(); is {
		p.mover.move(j.ID(), queueName(o.id, lane))
		return twolane.Snooze(0), nil
	}
	n := p.numbers.of(a.q)
	n.started(j.Starts() == 1, time.Since(j.Created()))
	raw, err := a.member(ctx)
	if err != nil {
		return twolane.Outcome{}, err
	}
	if raw == nil {
		n.ended(endedInvalid)
		return a.fail(wire.CodeInvalid, "the member was kept for too long and is gone"), nil
	}
	if a.m, err = wire.Parse(raw); err != nil {
		n.ended(endedInvalid)
		return a.fail(wire.CodeInvalid, err.Error()), nil
	}
	token := a.m.Internal.Token
	is := false
	if s := j.Metadata()[metaSession]; s == "" || s != p.session.current() {
		is, err = p.flights.cancelled(ctx, a.m.Data.ID, token)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return twolane.Outcome{}, context.Cause(ctx)
	case err != nil:
		return twolane.Outcome{}, twolane.RetryAfter(fmt.Errorf("ask whether it was cancelled: %w", err), time.Second)
	case is:
		if err := p.flights.end(ctx, a.m.Data.ID, token); err != nil {
			return twolane.Outcome{}, err
		}
		return twolane.Outcome{}, errCancelled // the command was asked to cancel, and ends so
	}
	ctx, done := p.flights.begin(ctx, a.m.Data.ID, token, j.ID())
	defer done()
	return a.run(ctx)
}

// member is the member as it came; nil if it is gone.
func (a *attempt) member(ctx context.Context) ([]byte, error) {
	key := a.job.Metadata()[metaBlob]
	if key == "" {
		return a.job.Params, nil
	}
	raw, err := a.p.redis.Do(ctx, a.p.redis.B().Get().Key(key).Build()).AsBytes()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return raw, err
}

// run sends the request.
func (a *attempt) run(ctx context.Context) (twolane.Outcome, error) {
	r, out, err := a.request(ctx)
	if r == nil {
		return out, err
	}
	switch got, err := a.o.take(ctx); {
	case err != nil:
		return twolane.Outcome{}, err
	case !got:
		return twolane.Snooze(0), nil
	}
	res, err := a.send(ctx, r)
	a.judge(ctx, res, err)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return a.answer(ctx, res)
	case errors.Is(err, errTooLarge):
		a.p.numbers.of(a.q).ended(endedFailed)
		return a.fail(wire.CodeInference, err.Error()), nil
	case cause == nil: // it was the attempt that failed
		return a.again(ctx, &sendError{err}, 0, nil)
	default: // cancelled, lost, draining, or over its deadline: the engine knows which
		return twolane.Outcome{}, cause
	}
}

// send makes one attempt with the slot that was taken, and gives the slot to whoever waits for it.
func (a *attempt) send(ctx context.Context, r *outgoing) (*response, error) {
	defer a.o.give()
	ctx, cancel := context.WithTimeout(ctx, a.p.cfg.HTTP.Timeout)
	defer cancel()
	n := a.p.numbers.of(a.q)
	n.sent()
	began := time.Now()
	res, err := a.p.sender.send(ctx, r.target, r.header, r.body)
	took := time.Since(began)
	n.answered(took)
	a.o.ahead.observe(took)
	return res, err
}

// sendError says that no response came, in the words of llm-d-async.
type sendError struct{ err error }

func (e *sendError) Error() string {
	return "Failed to send request to inference: UNKNOWN: failed to send request (caused by: " + e.err.Error() + ")"
}

func (e *sendError) Unwrap() error { return e.err }

// judge tells the breaker, and gates that learn, how the gateway fares.
func (a *attempt) judge(ctx context.Context, res *response, err error) {
	b := a.p.breaker(a.q.ID)
	switch {
	case err != nil && (context.Cause(ctx) != nil || errors.Is(err, errTooLarge)): // it was not the gateway
	case err != nil, res.status >= 500 && res.header.Get("Retry-After") == "":
		was := b.tripped()
		b.failed(time.Now())
		if !was && b.tripped() {
			text := "it answered " + strconv.Itoa(status(res))
			if err != nil {
				text = err.Error()
			}
			a.p.log.Warn("a gateway fails; only probes are sent until it answers again", "queue", a.q.ID, "last", text)
		}
	default:
		if b.succeeded(a.o.workers) {
			a.p.log.Info("a gateway answers again", "queue", a.q.ID)
		}
	}
	if res == nil {
		return
	}
	a.job.Backend(load(res))
}

// load is what a response says about the load of the gateway.
func load(res *response) gate.Response {
	ms, _ := strconv.ParseFloat(res.header.Get("x-llm-d-flow-queue-duration-ms"), 64) // 0 is unknown
	r := gate.Response{After: twolane.ParseRetryAfter(res.header.Get("Retry-After"), time.Now()), Queued: time.Duration(max(0, ms) * float64(time.Millisecond))}
	if n, err := strconv.Atoi(res.header.Get("x-llm-d-flow-band-headroom")); err == nil && n >= 0 {
		r.Room = &n
	}
	switch why := res.header.Get(droppedReason); {
	case why == "rejected-ttl-expired":
		r.Signal = gate.Expired
	case why == "evicted":
	case why == "rejected-saturated", res.status == http.StatusTooManyRequests, res.status == http.StatusServiceUnavailable && r.After > 0:
		r.Signal = gate.Pushed
	case res.status < 400:
		r.Signal = gate.Succeeded
	}
	return r
}

// droppedReason is the header in which the gateway says why it did not serve a request.
const droppedReason = "x-llm-d-request-dropped-reason"

func status(res *response) int {
	if res == nil {
		return 0
	}
	return res.status
}

// answer says what a response means.
func (a *attempt) answer(ctx context.Context, res *response) (twolane.Outcome, error) {
	n := a.p.numbers.of(a.q)
	record := wire.Response(a.m.Data.ID, a.m.Internal.Token, res.status, res.body)
	switch {
	case res.status == http.StatusTooManyRequests, res.status >= 500:
		if res.status == http.StatusTooManyRequests {
			n.shed()
		}
		asked := twolane.ParseRetryAfter(res.header.Get("Retry-After"), time.Now())
		text := fmt.Sprintf("%s%d: %s", answeredPrefix, res.status, cut(string(res.body), 32<<10))
		if why := res.header.Get(droppedReason); why != "" {
			text = fmt.Sprintf("%s%d (%s): %s", answeredPrefix, res.status, why, cut(string(res.body), 32<<10))
		}
		return a.again(ctx, errors.New(text), asked, record)
	case res.status >= 400:
		value, err := a.keep(ctx, record)
		if err != nil {
			return twolane.Outcome{}, err
		}
		n.ended(endedHTTP)
		return twolane.Fail(fmt.Errorf("%s%d", answeredPrefix, res.status)).WithResult(value), nil
	}
	value, err := a.keep(ctx, record)
	if err != nil {
		return twolane.Outcome{}, err
	}
	n.ended(endedOK)
	n.tokens(res.body)
	return twolane.Done(value), nil
}

// again lets the request be sent again later, if there is time for it; else it ends with the last response, or as over its deadline. asked is what the
// gateway has asked to wait.
func (a *attempt) again(ctx context.Context, err error, asked time.Duration, last *wire.Result) (twolane.Outcome, error) {
	n := a.p.numbers.of(a.q)
	left := time.Until(time.Unix(a.m.Data.Deadline, 0))
	h := &a.p.cfg.HTTP
	wait := twolane.Backoff{Base: h.BackoffBase, Max: h.BackoffMax}.Delay(a.job.Failures()+1, rand.Float64())
	if asked > wait {
		wait = time.Duration(float64(min(asked, left/2)) * (1 + rand.Float64()/4))
	}
	wait = min(max(wait, leastWait), left/2)
	over := wait < leastWait
	if over || h.MaxAttempts > 0 && a.job.Failures()+1 >= h.MaxAttempts {
		if last == nil && over {
			return twolane.Outcome{}, twolane.RetryAfter(err, max(left, 0)) // the engine ends it, as over its deadline
		}
		if last == nil {
			n.ended(endedFailed)
			return a.fail(wire.CodeInference, err.Error()), nil
		}
		value, e := a.keep(ctx, last)
		if e != nil {
			return twolane.Outcome{}, e
		}
		n.ended(endedHTTP)
		return twolane.Fail(err).WithResult(value), nil
	}
	n.retried()
	if asked > 0 {
		return twolane.Throttled(wait), nil
	}
	return twolane.Outcome{}, twolane.RetryAfter(err, wait)
}

// leastWait is the shortest time between two attempts; with less there is no time for another one.
const leastWait = 100 * time.Millisecond

// fail ends a request that is not answered by HTTP.
func (a *attempt) fail(code, message string) twolane.Outcome {
	id, token := a.job.Metadata()[metaRequest], a.job.Metadata()[metaToken]
	a.p.pushes(a.job)
	return twolane.Fail(errors.New(message)).WithResult(wire.Failure(id, token, code, message).Bytes())
}

// keep is what the store keeps of a record: the record, or where it is if it is too large. It tries until it is there or ctx ends.
func (a *attempt) keep(ctx context.Context, record *wire.Result) ([]byte, error) {
	b := record.Bytes()
	if len(b) <= maxRecord {
		a.p.pushes(a.job)
		return b, nil
	}
	r := a.p.redis
	for {
		err := r.Do(ctx, r.B().Set().Key(recordKey(a.job.ID())).Value(rueidis.BinaryString(b)).Px(a.p.keepRecords()).Build()).Error()
		if err == nil {
			return []byte(atKey), nil
		}
		if !pause(ctx, jitter(time.Second)) {
			return nil, context.Cause(ctx)
		}
	}
}

// pushes lets the settle of a request that is about to be answered push the record itself, if it can.
func (p *Processor) pushes(j *job) {
	if p.oneStep && j.Metadata()[metaRoute] != "" {
		it := pushOf(j.Metadata())
		p.st.answer(j.ID(), &it)
	}
}

// keepRecords is how long a record in a key of its own waits for its delivery.
func (p *Processor) keepRecords() time.Duration { return max(24*time.Hour, p.cfg.Store.Keep) }

// bury ends a member that is no request: it stays as a dead letter, and is answered if its id is known.
func (p *Processor) bury(_ context.Context, j *job) (twolane.Outcome, error) {
	meta := j.Metadata()
	out := twolane.Fail(errors.New(meta[metaWhy]))
	if meta[metaRoute] != "" {
		p.pushes(j)
		p.numbers.ofID(meta[metaQueue]).ended(endedInvalid)
		out = out.WithResult(wire.Failure(meta[metaRequest], meta[metaToken], wire.CodeInvalid, meta[metaWhy]).Bytes())
	}
	return out, nil
}
