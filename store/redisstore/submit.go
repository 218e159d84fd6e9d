package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// Bounds of one script call, so that none takes more than a few milliseconds of the server.
const (
	submitItems = 200
	submitBytes = 4 << 20
)

// submission is one command on its way to the script.
type submission struct {
	id, rest, params string
	delay            int64 // ms
	line             *lineDef
	key              string // unique key, for the answer
}

func (s *submission) size() int { return len(s.rest) + len(s.params) + 64 }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// encode packs a valid submission.
func (s *Store) encode(sub *store.Submission) submission {
	d := s.lines.of(sub)
	n := headLen + 24 + len(sub.UniqueKey) + len(sub.Notify)
	if len(sub.Params) <= inlineParams {
		n += len(sub.Params)
	}
	e := submission{id: sub.ID, delay: ceilMillis(sub.Delay), line: d, key: sub.UniqueKey}
	e.rest = stringOf(appendSubmission(make([]byte, 0, n), sub, d, rule.Fingerprint(sub)))
	if len(sub.Params) > inlineParams {
		e.params = stringOf(sub.Params)
	}
	return e
}

func tooMany(n int) error {
	if n > store.MaxItems {
		return &store.InvalidError{Field: "items", Detail: fmt.Sprintf("%d in one call, at most %d are allowed", n, store.MaxItems), Max: store.MaxItems}
	}
	return nil
}

// Submit implements [store.Store]. Calls that come while one is in flight go together in the next.
func (s *Store) Submit(ctx context.Context, req store.SubmitRequest) ([]store.SubmitResult, error) {
	if err := tooMany(len(req.Items)); err != nil {
		return nil, err
	}
	if req.Atomic && len(req.Items) > store.MaxAtomic {
		return nil, &store.InvalidError{Field: "items", Detail: fmt.Sprintf("an atomic batch has at most %d", store.MaxAtomic), Max: store.MaxAtomic}
	}
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	res := make([]store.SubmitResult, len(req.Items))
	subs, at, invalid := make([]submission, 0, len(req.Items)), make([]int, 0, len(req.Items)), false
	for i := range req.Items {
		if res[i].Err = rule.ValidSubmission(&req.Items[i]); res[i].Err != nil {
			invalid = true
			continue
		}
		subs, at = append(subs, s.encode(&req.Items[i])), append(at, i)
	}
	if req.Atomic {
		if invalid {
			for i := range res {
				if res[i].Err == nil {
					res[i].Err = store.ErrAborted
				}
			}
			return res, nil
		}
		got, err := s.submitCall(ctx, subs, true)
		if err != nil {
			return nil, err
		}
		copy(res, got)
		return res, nil
	}
	for len(subs) > 0 {
		n, bytes := 0, 0
		for n < len(subs) && n < submitItems && (n == 0 || bytes+subs[n].size() <= submitBytes) {
			bytes += subs[n].size()
			n++
		}
		got, err := s.submits.do(ctx, subs[:n:n])
		if err != nil {
			return nil, err
		}
		for i := range got {
			res[at[i]] = got[i]
		}
		subs, at = subs[n:], at[n:]
	}
	return res, nil
}

func (s *Store) submitBatch(ctx context.Context, subs []submission) ([]store.SubmitResult, error) {
	return s.submitCall(ctx, subs, false)
}

// submitCall makes one script call. A server that is out of memory refuses each item, not the call: that it was not made is certain.
func (s *Store) submitCall(ctx context.Context, subs []submission, atomic bool) ([]store.SubmitResult, error) {
	if len(subs) == 0 {
		return nil, nil
	}
	args := make([]string, 1, 8+3*len(subs))
	args[0] = boolArg(atomic)
	m, err := s.eval(ctx, &s.main, scriptSubmit, appendIntake(args, subs))
	if errors.Is(err, store.ErrReadOnly) {
		res := make([]store.SubmitResult, len(subs))
		for i := range res {
			res[i].Err = store.ErrReadOnly
		}
		return res, nil
	}
	if err != nil {
		return nil, err
	}
	return readIntake(m, subs)
}

func boolArg(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// appendIntake appends what script/intake.lua reads.
func appendIntake(args []string, subs []submission) []string {
	lines := make([]*lineDef, 0, 1)
	var index map[string]int // by name: a line may have been read more than once, and is counted once in a call
	which, delays := make([]byte, 0, 2*len(subs)), []byte(nil)
	ids := make(map[string]struct{}, len(subs))
	for i := range subs {
		ids[subs[i].id] = struct{}{}
		d := subs[i].line
		n := len(lines) - 1
		if n < 0 || lines[n] != d {
			if index == nil {
				index = make(map[string]int, 1)
			}
			var ok bool
			if n, ok = index[d.base]; !ok {
				n = len(lines)
				lines, index[d.base] = append(lines, d), n
			}
		}
		which = binary.BigEndian.AppendUint16(which, uint16(n+1))
		if subs[i].delay > 0 && delays == nil {
			delays = make([]byte, 8*len(subs))
		}
		if subs[i].delay > 0 {
			binary.LittleEndian.PutUint64(delays[8*i:], math.Float64bits(float64(subs[i].delay)))
		}
	}
	if len(lines) == 1 {
		which = nil
	}
	args = append(args, itoa(int64(len(subs))), itoa(int64(len(lines))))
	for _, d := range lines {
		args = append(args, d.base, d.text, d.queue, d.typ, d.group)
	}
	args = append(args, stringOf(which), stringOf(delays), boolArg(len(ids) < len(subs)))
	for i := range subs {
		args = append(args, subs[i].id, subs[i].rest)
		if subs[i].params != "" {
			args = append(args, subs[i].params)
		}
	}
	return args
}

// readIntake reads what script/intake.lua answers.
func readIntake(m rueidis.RedisMessage, subs []submission) ([]store.SubmitResult, error) {
	parts, err := m.ToArray()
	if err != nil || len(parts) < 2 {
		return nil, badReply("submit", err)
	}
	codes, err := parts[0].ToString()
	if err != nil || len(codes) != 2*len(subs) {
		return nil, badReply("submit", err)
	}
	holders, err := parts[1].AsStrSlice()
	if err != nil {
		return nil, badReply("submit", err)
	}
	res := make([]store.SubmitResult, len(subs))
	for i := range subs {
		r := &res[i]
		status := store.Status(codes[2*i+1] - '0')
		switch codes[2*i] {
		case 'C':
			r.Created, r.Status = true, status
		case 'K':
			r.Status = status
		case 'X':
			r.Status, r.Err = status, store.ErrIDConflict
		case 'F':
			r.Err = store.ErrQueueFull
		case 'A':
			r.Err = store.ErrAborted
		case 'U':
			if len(holders) == 0 {
				return nil, badReply("submit", nil)
			}
			r.Err = &store.UniqueHeldError{Key: subs[i].key, Holder: holders[0], Status: status}
			holders = holders[1:]
		case 'N':
			if len(holders) < 2 {
				return nil, badReply("submit", nil)
			}
			r.Err = &store.InvalidError{Field: "cost", Detail: fmt.Sprintf("%d can never fit limit %s of %s", subs[i].line.cost, parseLimitKey(holders[0]), holders[1])}
			holders = holders[2:]
		default:
			return nil, badReply("submit", nil)
		}
	}
	return res, nil
}

// badReply is an answer that no script of ours gives.
func badReply(what string, err error) error {
	if err != nil {
		return fmt.Errorf("redis %s: unexpected reply: %w", what, err)
	}
	return fmt.Errorf("redis %s: unexpected reply", what)
}
