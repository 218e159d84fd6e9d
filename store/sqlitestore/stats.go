package sqlitestore

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/twolane/twolane/store"
)

// Bounds of what Stats looks at to count what is eligible in one lane of a queue.
const (
	maxCounted = 10_000 // commands
	maxLines   = 1_000  // lines
	maxAged    = 2_000  // commands whose waiting time is compared
	maxNext    = 32     // commands whose turn comes next
)

// Stats implements [store.Store].
func (s *Store) Stats(ctx context.Context, req store.StatsRequest) (store.Stats, error) {
	var st store.Stats
	err := s.read(ctx, func(r *reader) error {
		var err error
		st, err = r.stats(&req)
		return err
	})
	st.Bytes = s.bytes()
	return st, err
}

func (r *reader) stats(req *store.StatsRequest) (store.Stats, error) {
	out := store.Stats{AsOf: r.now.Wall, Run: r.now.Run, LeaseAt: r.now.Lease, Config: r.ns.version, Outbox: map[string]int{}, Groups: map[string]int{}}
	if err := r.rows(r.q("SELECT name, n FROM topic WHERE n>0"), func(st stmt) { out.Outbox[st.ColText(0)] = int(st.ColInt(1)) }); err != nil {
		return out, err
	}
	for _, g := range req.Groups {
		out.Groups[g] = 0
		if err := r.rows(r.q("SELECT live FROM grp WHERE name=?").Text(g), func(st stmt) { out.Groups[g] = int(st.ColInt(0)) }); err != nil {
			return out, err
		}
	}
	if err := r.rows(r.q("SELECT count(*) FROM (SELECT 1 FROM lost LIMIT 10000)"), func(st stmt) { out.Lost = int(st.ColInt(0)) }); err != nil {
		return out, err
	}
	workers, err := r.workers()
	if err != nil {
		return out, err
	}
	if !req.Overview {
		out.Workers = workers
	}
	if out.Limits, err = r.limits(); err != nil {
		return out, err
	}
	queues, err := r.queues(req.Queues)
	if err != nil {
		return out, err
	}
	for _, q := range queues {
		qs, err := r.queueStats(q, workers, !req.Overview)
		if err != nil {
			return out, err
		}
		out.Queues = append(out.Queues, qs)
	}
	return out, nil
}

// rows calls f for each row of st.
func (r *reader) rows(st stmt, f func(stmt)) error {
	for {
		ok, err := st.Step()
		if err != nil || !ok {
			return err
		}
		f(st)
	}
}

// workers are those whose heartbeat is current, by id.
func (r *reader) workers() ([]store.Worker, error) {
	var all []store.Worker
	var bad error
	err := r.rows(r.q("SELECT json FROM worker WHERE expires>? ORDER BY expires LIMIT 10000").Int(int64(r.now.Lease)), func(st stmt) {
		var w store.Worker
		if err := json.Unmarshal(st.ColBlob(0), &w); err != nil {
			bad = err
			return
		}
		all = append(all, w)
	})
	if err == nil {
		err = bad
	}
	slices.SortFunc(all, func(a, b store.Worker) int { return strings.Compare(a.ID, b.ID) })
	return all, err
}

// queues are those asked for, or all that are configured or have a record.
func (r *reader) queues(asked []string) ([]*queueRow, error) {
	known := map[string]*queueRow{}
	scan := func(st stmt) {
		q := &queueRow{q: st.ColInt(0), name: st.ColText(1), ready: st.ColInt(2), succeeded: st.ColInt(3), failed: st.ColInt(4), cancelled: st.ColInt(5)}
		known[q.name] = q
	}
	const sql = "SELECT q, name, ready, succeeded, failed, cancelled FROM queue"
	if len(asked) > 0 {
		var all []*queueRow
		for _, name := range asked {
			if err := r.rows(r.q(sql+" WHERE name=?").Text(name), scan); err != nil {
				return nil, err
			}
			q := known[name]
			if q == nil {
				q = &queueRow{name: name}
			}
			all = append(all, q)
		}
		return all, nil
	}
	if err := r.rows(r.q(sql), scan); err != nil {
		return nil, err
	}
	var all []*queueRow
	for name := range r.cfg.Queues {
		if known[name] == nil {
			known[name] = &queueRow{name: name}
		}
	}
	for name, q := range known {
		if _, configured := r.cfg.Queues[name]; !configured && q.finished()+q.ready == 0 {
			empty, err := r.deserted(q)
			if err != nil {
				return nil, err
			}
			if empty {
				continue
			}
		}
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b *queueRow) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// deserted reports whether a queue has no live command.
func (r *reader) deserted(q *queueRow) (bool, error) {
	n := int64(0)
	err := r.rows(r.q("SELECT inline0+inline1+leased0+leased1+scheduled FROM kind WHERE q=?").Int(q.q), func(st stmt) { n += st.ColInt(0) })
	return n == 0, err
}

func (r *reader) queueStats(q *queueRow, workers []store.Worker, withTypes bool) (store.QueueStats, error) {
	qs := store.QueueStats{
		Queue: q.name, Pause: r.cfg.Queue(q.name).Paused(r.now.Wall), Reasons: map[store.Reason]int{},
		Succeeded: int(q.succeeded), Failed: int(q.failed), Cancelled: int(q.cancelled),
	}
	if q.q == 0 {
		for lane := range store.Lanes {
			if err := r.lane(q, nil, store.Lane(lane), &qs.Lanes[lane]); err != nil {
				return qs, err
			}
		}
		return qs, nil
	}
	if err := r.rows(r.q("SELECT name, n FROM reason WHERE q=? AND n>0").Int(q.q), func(st stmt) { qs.Reasons[store.Reason(st.ColText(0))] = int(st.ColInt(1)) }); err != nil {
		return qs, err
	}
	var kinds, ofTypes []int64
	if err := r.rows(r.q("SELECT k, type, inline0, inline1, leased0, leased1, scheduled FROM kind WHERE q=? ORDER BY type").Int(q.q), func(st stmt) {
		kinds = append(kinds, st.ColInt(0))
		qs.Scheduled += int(st.ColInt(6))
		for lane := range store.Lanes {
			t := store.TypeStats{Type: st.ColText(1), Lane: store.Lane(lane), InLine: int(st.ColInt(int32(2 + lane))), Leased: int(st.ColInt(int32(4 + lane)))}
			qs.Lanes[lane].InLine += t.InLine
			qs.Lanes[lane].Leased += t.Leased
			if scheduled := lane == 0 && st.ColInt(6) > 0; withTypes && (t.InLine+t.Leased > 0 || scheduled) {
				t.Workers = able(workers, q.name, &t)
				qs.Types, ofTypes = append(qs.Types, t), append(ofTypes, st.ColInt(0))
			}
		}
	}); err != nil {
		return qs, err
	}
	for i, k := range ofTypes {
		if err := r.throttled(k, &qs.Types[i]); err != nil {
			return qs, err
		}
	}
	for lane := range store.Lanes {
		if err := r.lane(q, kinds, store.Lane(lane), &qs.Lanes[lane]); err != nil {
			return qs, err
		}
	}
	for _, f := range [...]func(*queueRow, []int64, *store.QueueStats) error{r.inLine, r.scheduled, r.leased} {
		if err := f(q, kinds, &qs); err != nil {
			return qs, err
		}
	}
	return qs, nil
}

// able counts the workers that can run a type.
func able(workers []store.Worker, queue string, t *store.TypeStats) int {
	n := 0
	for i := range workers {
		if w := &workers[i]; !w.Draining && slices.Contains(w.Queues, queue) && slices.Contains(w.Types[t.Lane], t.Type) {
			n++
		}
	}
	return n
}

// older notes that a command has been eligible since a point in time.
func older(l *store.LaneStats, since store.Millis) {
	if l.OldestEligible == 0 || since < l.OldestEligible {
		l.OldestEligible = since
	}
}

// inLine counts what is eligible in line, by its lines in the order of their heads.
func (r *reader) inLine(q *queueRow, kinds []int64, qs *store.QueueStats) error {
	ended, err := r.endedInLine(q, qs)
	if err != nil {
		return err
	}
	for lane := range store.Lanes {
		l := &qs.Lanes[lane]
		if l.InLine == 0 {
			continue
		}
		lines := maxLines
		aged := maxAged
		counted := 0
		for _, k := range kinds {
			for class := store.ClassFirst; class <= store.ClassSuspectVisit && lines > 0; class++ {
				var lns, heads []int64
				for shut := range int64(2) {
					if shut > 0 && r.ns.filed == 0 {
						break
					}
					if err := r.rows(r.q("SELECT ln, head FROM line WHERE k=? AND lane=? AND shut=? AND class=? AND head IS NOT NULL ORDER BY head LIMIT ?").
						Int(k).Int(int64(lane)).Int(shut).Int(int64(class)).Int(int64(lines-len(lns))), func(st stmt) {
						lns, heads = append(lns, st.ColInt(0)), append(heads, st.ColInt(1))
					}); err != nil {
						return err
					}
				}
				if lines -= len(lns); lines <= 0 {
					l.AtLeast = l.AtLeast || lane == int(store.Repoll)
				}
				for i, ln := range lns {
					if lane == int(store.Repoll) {
						n, err := r.due(l, ln, heads[i], min(maxCounted-counted, maxCounted))
						if err != nil {
							return err
						}
						counted += n
						continue
					}
					if aged <= 0 {
						break
					}
					if err := r.rows(r.q("SELECT since, ends FROM cmd WHERE line=? ORDER BY score LIMIT ?").Int(ln).Int(int64(aged)), func(st stmt) {
						aged--
						if ends := st.ColInt(1); ends == 0 || ends > int64(r.now.Wall) {
							older(l, store.Millis(st.ColInt(0)))
						}
					}); err != nil {
						return err
					}
				}
			}
		}
		if lane == int(store.Intake) {
			l.Eligible += l.InLine - ended
			continue
		}
		l.Eligible += counted
		l.AtLeast = l.AtLeast || counted >= maxCounted
	}
	return nil
}

// due counts the polls of a line that are due.
func (r *reader) due(l *store.LaneStats, ln, head int64, most int) (int, error) {
	run := int64(r.now.Run)
	if head > run {
		if l.NextDue == 0 || store.Millis(head) < l.NextDue {
			l.NextDue = store.Millis(head)
		}
		return 0, nil
	}
	n := 0
	if err := r.rows(r.q("SELECT score, ends FROM cmd WHERE line=? AND score<=? ORDER BY score LIMIT ?").Int(ln).Int(run).Int(int64(most)), func(st stmt) {
		if ends := st.ColInt(1); ends == 0 || ends > int64(r.now.Wall) {
			n++
			older(l, r.now.Wall-(r.now.Run-store.Millis(st.ColInt(0))))
		}
	}); err != nil {
		return 0, err
	}
	return n, r.rows(r.q("SELECT score FROM cmd WHERE line=? AND score>? ORDER BY score LIMIT 1").Int(ln).Int(run), func(st stmt) {
		if due := store.Millis(st.ColInt(0)); l.NextDue == 0 || due < l.NextDue {
			l.NextDue = due
		}
	})
}

// endedInLine counts the PENDING commands in line that time has ended, which nobody has written yet.
func (r *reader) endedInLine(q *queueRow, qs *store.QueueStats) (int, error) {
	n := 0
	err := r.rows(r.q("SELECT q, status, place FROM cmd WHERE ends<=? ORDER BY ends LIMIT ?").Int(int64(r.now.Wall)).Int(maxCounted), func(st stmt) {
		if st.ColInt(0) == q.q && store.Status(st.ColInt(1)) == store.Pending && store.Place(st.ColInt(2)) == store.InLine {
			n++
		}
	})
	return min(n, qs.Lanes[store.Intake].InLine), err
}
