package inference

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/inference/wire"
)

// errCancelled ends the context of a request that its producer has cancelled.
var errCancelled = errors.New("cancelled by its producer")

// markEvery is how often the cancel marks of requests in flight are read.
const markEvery = 500 * time.Millisecond

// flights are the requests that this process sends just now, and who wants them to end. A producer marks a request by its id; the mark counts for the
// one whose token it holds.
type flights struct {
	p  *Processor
	mu sync.Mutex
	of map[string]map[string]*flight // by id of the request, by token
	in chan string                   // ids whose marks have changed
}

// flight is one request in flight.
type flight struct {
	command string
	began   time.Time
	cancel  context.CancelCauseFunc
}

func newFlights(p *Processor) *flights {
	return &flights{p: p, of: map[string]map[string]*flight{}, in: make(chan string, 1024)}
}

// begin notes a request in flight. The context ends with errCancelled when its producer cancels it. done must be called.
func (f *flights) begin(ctx context.Context, id, token, command string) (sub context.Context, done func()) {
	sub, cancel := context.WithCancelCause(ctx)
	if token == "" {
		return sub, func() { cancel(nil) }
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[id] == nil {
		f.of[id] = map[string]*flight{}
	}
	mine := &flight{command: command, began: time.Now(), cancel: cancel}
	f.of[id][token] = mine
	return sub, func() {
		cancel(nil)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.of[id][token] == mine {
			delete(f.of[id], token)
		}
		if len(f.of[id]) == 0 {
			delete(f.of, id)
		}
	}
}

// cancelled asks whether the producer has cancelled a request.
func (f *flights) cancelled(ctx context.Context, id, token string) (bool, error) {
	if token == "" {
		return false, nil
	}
	mark, err := f.p.redis.Do(ctx, f.p.redis.B().Get().Key(wire.CancelKey(id)).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return mark == token, err
}

// end lets a cancelled request end: as a command, so that it is not sent again and its result says so, and in flight.
func (f *flights) end(ctx context.Context, id, token string) error {
	rs, err := f.p.client.Cancel(ctx, []string{CommandID(id, token)}, &twolane.CancelOptions{Reason: errCancelled.Error()})
	if len(rs) == 1 && err == nil && rs[0].Err == nil && rs[0].Status == twolane.StatusCancelled {
		f.p.log.Debug("a request was cancelled", "request", id)
	}
	f.mu.Lock()
	if x := f.of[id][token]; x != nil {
		x.cancel(errCancelled)
	}
	f.mu.Unlock()
	return err
}

// marked says that the mark of a request has changed. It never blocks: what does not fit is asked for before it is sent.
func (f *flights) marked(id string) {
	select {
	case f.in <- id:
	default:
		f.p.session.escaped()
	}
}

// watch looks at marks until ctx ends: at once at those that are told, and now and then at those of all that is in flight.
func (f *flights) watch(ctx context.Context) {
	t := time.NewTicker(markEvery)
	defer t.Stop()
	for {
		var ids []string
		select {
		case <-ctx.Done():
			return
		case id := <-f.in:
			ids = append(ids, id)
			for len(ids) < 500 && len(f.in) > 0 {
				ids = append(ids, <-f.in)
			}
		case <-t.C:
			ids = f.older(markEvery / 2)
		}
		for len(ids) > 0 && ctx.Err() == nil {
			n := min(len(ids), 500)
			f.look(ctx, ids[:n])
			ids = ids[n:]
		}
	}
}

// older lists what has been in flight for a while: what began just now was asked for then.
func (f *flights) older(than time.Duration) (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for id, tokens := range f.of {
		for _, x := range tokens {
			if now.Sub(x.began) > than {
				ids = append(ids, id)
				break
			}
		}
	}
	return ids
}

// look reads marks and ends what they are about. A mark that could not be read is read again by the next look.
func (f *flights) look(ctx context.Context, ids []string) {
	cmds := make(rueidis.Commands, len(ids))
	for i, id := range ids {
		cmds[i] = f.p.redis.B().Get().Key(wire.CancelKey(id)).Build()
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for i, r := range f.p.redis.DoMulti(ctx, cmds...) {
		token, err := r.ToString()
		if rueidis.IsRedisNil(err) || err == nil && token == "" {
			continue
		}
		if err == nil {
			err = f.end(ctx, ids[i], token)
		}
		if err != nil { // it is asked for before it is sent, or seen by the next look
			f.p.session.escaped()
			f.p.log.Debug("a cancel is not recorded yet", "request", ids[i], "error", err)
		}
	}
}

// taken reads the marks of requests that the store has just got: they may have been cancelled before.
func (f *flights) taken(ctx context.Context, ts []*taken) {
	var ids []string
	for _, t := range ts {
		if t.sub.Metadata[metaToken] != "" && t.sub.Metadata[metaSession] != "" {
			ids = append(ids, t.sub.Metadata[metaRequest])
		}
	}
	if len(ids) == 0 {
		return
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = wire.CancelKey(id)
	}
	marks, err := rueidis.MGet(f.p.redis, ctx, keys)
	if err != nil {
		f.p.session.escaped()
		return
	}
	for i, id := range ids {
		m := marks[keys[i]]
		if token, err := m.ToString(); err == nil && token != "" {
			f.marked(id)
		}
	}
}
