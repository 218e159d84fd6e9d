package inference

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/inference/wire"
	"github.com/twolane/twolane/store"
)

const (
	deliverMax = 100
	// hideFor is how long entries are out of others' sight; a processor that dies with some in hand delays them by that.
	hideFor = 5 * time.Second
	// deliverTry bounds one delivery; it is over before others see the entries.
	deliverTry = 2 * time.Second
)

// deliverer turns ends of commands into records of result lists.
type deliverer struct {
	p      *Processor
	st     store.Store
	pusher store.ListPusher // not nil: store and lists are one database
	watch  store.Watcher
	failed bool
}

func newDeliverer(ctx context.Context, p *Processor) (*deliverer, error) {
	d := &deliverer{p: p, st: p.opt.Store}
	var err error
	if d.pusher, err = p.pusher(ctx); err != nil {
		return nil, err
	}
	if d.pusher == nil {
		p.log.Info("the store and the result lists are not one Redis: a result may come twice after a crash, with the same request_token")
	}
	d.watch, err = d.st.Watch(ctx)
	return d, err
}

// pusher is the store, if it can push to the result lists in the step that ends an entry: it is on their server and database.
func (p *Processor) pusher(ctx context.Context) (store.ListPusher, error) {
	lp, ok := p.opt.Store.(store.ListPusher)
	if !ok || !p.single {
		return nil, nil
	}
	theirs, err := lp.Database(ctx)
	if err != nil || theirs == "" {
		return nil, err
	}
	ours, err := p.database(ctx)
	if err != nil {
		return nil, fmt.Errorf("the producers' Redis: %w", err)
	}
	if ours != theirs {
		return nil, nil
	}
	return lp, nil
}

// run delivers until ctx ends.
func (d *deliverer) run(ctx context.Context) {
	defer d.watch.Close()
	for ctx.Err() == nil {
		n, err := d.step(ctx)
		if err != nil && ctx.Err() == nil {
			if !d.failed {
				d.p.log.Warn("results cannot be delivered; they wait in the store", "error", err)
			}
			d.failed = true
			if !pause(ctx, jitter(200*time.Millisecond)) {
				return
			}
			continue
		}
		if d.failed {
			d.p.log.Info("results are delivered again")
			d.failed = false
		}
		if n == 0 && !d.wait(ctx) {
			return
		}
	}
}

// wait returns when there may be something to deliver.
func (d *deliverer) wait(ctx context.Context) bool {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
			return true
		case w, ok := <-d.watch.C():
			if !ok || w.Kind == store.WakeAll || w.Kind == store.WakeOutbox && w.ID == topic {
				if !ok { // the store is closed
					return pause(ctx, time.Second)
				}
				return true
			}
		}
	}
}

// last delivers what there is, within a time: the process is about to end.
func (d *deliverer) last(within time.Duration) {
	end := time.Now().Add(within)
	for time.Now().Before(end) {
		ctx, cancel := context.WithDeadline(context.Background(), end)
		st, err := d.st.Stats(ctx, store.StatsRequest{Overview: true})
		cancel()
		if err != nil || st.Outbox[topic] == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond) // run works on it
	}
	d.p.log.Warn("some results are not delivered yet; they wait in the store for the next processor")
}

// step delivers one batch and says how many entries there were.
func (d *deliverer) step(ctx context.Context) (int, error) {
	es, err := d.st.Outbox(ctx, store.OutboxRequest{Topic: topic, Max: deliverMax, HideFor: store.Millis(hideFor.Milliseconds())})
	if err != nil || len(es) == 0 {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, deliverTry)
	defer cancel()
	items, of := make([]store.PushItem, 0, len(es)), make(map[uint64]*store.Command, len(es))
	var ack []uint64
	for i := range es {
		it, err := d.item(ctx, &es[i])
		if err != nil {
			return len(es), err
		}
		of[it.Seq] = es[i].Command
		if it.List == "" {
			ack = append(ack, it.Seq)
			continue
		}
		items = append(items, it)
	}
	if len(ack) > 0 {
		if _, err := d.st.Outbox(ctx, store.OutboxRequest{Topic: topic, Ack: ack}); err != nil {
			return len(es), err
		}
	}
	if len(items) == 0 {
		return len(es), nil
	}
	deliver := d.send
	if d.pusher != nil {
		deliver = d.push
	}
	done, err := deliver(ctx, items)
	for _, seq := range done {
		d.p.numbers.delivered(of[seq])
	}
	return len(es), err
}

// push hands results over in the step that ends their entries.
func (d *deliverer) push(ctx context.Context, items []store.PushItem) (done []uint64, err error) {
	states, err := d.pusher.Push(ctx, topic, items)
	for i, s := range states {
		switch s {
		case store.PushDone:
			done = append(done, items[i].Seq)
		case store.PushRefused:
			err = errors.Join(err, fmt.Errorf("%s is no list", items[i].List))
		}
	}
	return done, err
}

// unset takes a key away if it has a value.
var unset = rueidis.NewLuaScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

// send pushes results to a Redis that the store is not part of, and ends their entries after that.
func (d *deliverer) send(ctx context.Context, items []store.PushItem) (done []uint64, err error) {
	r := d.p.redis
	var cmds rueidis.Commands
	var of []int
	add := func(i int, c rueidis.Completed) { cmds, of = append(cmds, c), append(of, i) }
	for i, it := range items {
		add(i, r.B().Lpush().Key(it.List).Element(string(it.Value)).Build())
		if it.TTL > 0 {
			add(i, r.B().Pexpire().Key(it.List).Milliseconds(int64(it.TTL)).Build())
		}
	}
	bad := map[int]error{}
	for i, res := range r.DoMulti(ctx, cmds...) {
		if err := res.Error(); err != nil {
			bad[of[i]] = fmt.Errorf("%s: %w", items[of[i]].List, err)
		}
	}
	var ack []uint64
	var all error
	for i, it := range items {
		if bad[i] != nil {
			all = errors.Join(all, bad[i])
			continue
		}
		ack = append(ack, it.Seq)
	}
	if len(ack) == 0 {
		return nil, all
	}
	if _, err := d.st.Outbox(ctx, store.OutboxRequest{Topic: topic, Ack: ack}); err != nil {
		return nil, errors.Join(all, err)
	}
	// What is left of delivered requests ends by itself if this fails.
	var old []string
	var conds []rueidis.LuaExec
	for i, it := range items {
		if bad[i] != nil {
			continue
		}
		old = append(old, it.Del...)
		for _, c := range it.DelIf {
			conds = append(conds, rueidis.LuaExec{Keys: []string{c.Key}, Args: []string{c.Value}})
		}
	}
	for _, key := range old {
		if err := r.Do(ctx, r.B().Del().Key(key).Build()).Error(); err != nil {
			return ack, errors.Join(all, err)
		}
	}
	if len(conds) > 0 {
		for _, res := range unset.ExecMulti(ctx, r, conds...) {
			if err := res.Error(); err != nil {
				return ack, errors.Join(all, err)
			}
		}
	}
	return ack, all
}

// item is the record of an end, its list, and the keys that have had their day with it.
func (d *deliverer) item(ctx context.Context, e *store.OutboxEntry) (store.PushItem, error) {
	c := e.Command
	meta := c.Metadata
	it := pushOf(meta)
	it.Seq = e.Seq
	id, token := meta[metaRequest], meta[metaToken]
	switch {
	case len(c.Result) == 0, c.Reason == twolane.ReasonDropped:
		it.Value = ending(c).Bytes()
	case meta[metaRoute] != "" && string(c.Result) == atKey:
		record, err := d.p.redis.Do(ctx, d.p.redis.B().Get().Key(recordKey(c.ID)).Build()).AsBytes()
		if rueidis.IsRedisNil(err) {
			record, err = wire.Failure(id, token, wire.CodeInference, "the response was kept for too long and is gone").Bytes(), nil
		}
		if err != nil {
			return it, err
		}
		it.Value = record
		it.Del = append(it.Del, recordKey(c.ID))
	default:
		it.Value = c.Result
	}
	return it, nil
}

// atKey stands for a record that is too large for the store and waits in a key of its own.
const atKey = "@"

// ending is the record of a command that its handler did not end, or ended without one.
func ending(c *store.Command) *wire.Result {
	id, token := c.Metadata[metaRequest], c.Metadata[metaToken]
	switch {
	case c.Status == twolane.StatusCancelled:
		return wire.Failure(id, token, wire.CodeCancelled, "cancelled")
	case c.Reason == twolane.ReasonDeadline, c.Reason == twolane.ReasonExpired:
		if status, body, ok := lastAnswer(c.Error); ok {
			return wire.Response(id, token, status, []byte(body))
		}
		return wire.Failure(id, token, wire.CodeDeadline, "deadline exceeded")
	case c.Reason == twolane.ReasonWorkerLost:
		return wire.Failure(id, token, wire.CodeInference, "the processor died each time it sent the request")
	case c.Reason == twolane.ReasonDropped && len(c.Result) > 0: // what the gate left
		return &wire.Result{ID: id, Payload: string(c.Result), ErrorCode: wire.CodeGateDropped, ErrorMessage: "Too Many Requests", Token: token}
	case c.Reason == twolane.ReasonDropped:
		return wire.Failure(id, token, wire.CodeGateDropped, "Pool gating dropped request")
	}
	why := c.Error
	if why == "" {
		why = string(c.Reason)
	}
	return wire.Failure(id, token, wire.CodeInference, why)
}

// database names the server and database of the producers.
func (p *Processor) database(ctx context.Context) (string, error) {
	return databaseOf(ctx, p.redis, p.cfg.Redis)
}
