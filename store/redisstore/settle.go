package redisstore

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// settleItems bounds one script call, follow-ups included.
const settleItems = 200

// Flags of an option string, see script/settle.lua.
const (
	settleSetState  = 1
	settleHook      = 2
	settleDecode    = 4
	settleUnstarted = 8
	settleAgain     = 16
	settleError     = 32
	settleBlob      = 64
	settleFollow    = 128

	settlePush = 16 // beside the kind
)

// settlement is one settlement on its way to the script.
type settlement struct {
	id, name, opt string
	err, blob     string
	flags         byte
	push          *store.PushItem
	invalid       error
	follow        []submission
}

func (s *settlement) size() int {
	n := len(s.err) + len(s.blob) + 96
	if s.push != nil {
		n += 256
	}
	for i := range s.follow {
		n += s.follow[i].size()
	}
	return n
}

// encodeSettlement packs a settlement. One that is not valid is only compared, so that the answer says whether its lease stands.
func (s *Store) encodeSettlement(it *store.Settlement) settlement {
	e := settlement{id: it.ID, name: it.Lease.String(), invalid: rule.ValidSettlement(it)}
	kind := byte(it.Kind)
	reason, ok := reasonCode(it.Reason)
	if e.invalid == nil && !ok {
		e.invalid = &store.InvalidError{Field: "reason", Detail: "is unknown: " + string(it.Reason)}
	}
	if it.Again {
		e.flags |= settleAgain
	}
	if e.invalid != nil {
		e.opt = packOption(0, e.flags, 0, &store.Settlement{})
		return e
	}
	blob := it.Result
	if it.Kind == store.OutcomeProcessing {
		blob = nil
		if it.SetState {
			e.flags |= settleSetState
			blob = it.State
		}
		if it.HasHook {
			e.flags |= settleHook
		}
	}
	if blob != nil {
		e.flags |= settleBlob
		e.blob = stringOf(blob)
	}
	if it.Decode {
		e.flags |= settleDecode
	}
	if it.Unstarted {
		e.flags |= settleUnstarted
	}
	if it.Error != "" {
		e.flags |= settleError
		e.err = it.Error
	}
	s.encodeFollowUps(&e, it)
	if it.Push != nil && !s.opt.Cluster && (it.Kind == store.OutcomeDone || it.Kind == store.OutcomeFail) {
		e.push = it.Push
		kind += settlePush
	}
	e.opt = packOption(kind, e.flags, reason, it)
	return e
}

// packOption packs what many settlements have in common.
func packOption(kind, flags, reason byte, it *store.Settlement) string {
	b := make([]byte, 3, 28)
	b[0], b[1], b[2] = kind, flags, reason
	b = appendFloat(b, float64(ceilMillis(it.Delay)))
	b = appendFloat(b, float64(it.Grid.Milliseconds()))
	b = appendFloat(b, it.Observed)
	return stringOf(append(b, byte(cutText(it.Error))))
}

// encodeFollowUps packs the children of a Done. Their validity was checked with the settlement.
func (s *Store) encodeFollowUps(e *settlement, it *store.Settlement) {
	if len(it.FollowUps) == 0 {
		return
	}
	e.flags |= settleFollow
	for i := range it.FollowUps {
		e.follow = append(e.follow, s.encode(&it.FollowUps[i]))
	}
}

func appendFloat(b []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
}

// cutText is how many bytes of text an event keeps: at most MaxEventText, and no torn rune at the end if it can be helped.
func cutText(text string) int {
	if len(text) <= store.MaxEventText {
		return len(text)
	}
	n := store.MaxEventText
	for n > 0 && !utf8.ValidString(text[:n]) && n > store.MaxEventText-utf8.UTFMax {
		n--
	}
	return n
}

// Settle implements [store.Store]. Calls that come while one is in flight go together in the next.
func (s *Store) Settle(ctx context.Context, req store.SettleRequest) ([]store.SettleResult, error) {
	if err := tooMany(len(req.Items)); err != nil {
		return nil, err
	}
	done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	res := make([]store.SettleResult, 0, len(req.Items))
	items := make([]settlement, len(req.Items))
	for i := range req.Items {
		items[i] = s.encodeSettlement(&req.Items[i])
	}
	for len(items) > 0 {
		n, weight, bytes := 0, 0, 0
		for n < len(items) {
			w := 1 + len(items[n].follow)
			if n > 0 && (weight+w > settleItems || bytes+items[n].size() > submitBytes) {
				break
			}
			weight, bytes, n = weight+w, bytes+items[n].size(), n+1
		}
		got, err := s.settles.do(ctx, items[:n:n])
		if err != nil {
			return nil, err
		}
		res = append(res, got...)
		items = items[n:]
	}
	return res, nil
}

func (s *Store) settleBatch(ctx context.Context, items []settlement) ([]store.SettleResult, error) {
	if len(items) == 0 {
		return nil, nil
	}
	args := make([]string, 3, 8+3*len(items))
	args[0], args[1] = itoa(int64(len(items))), "0"
	which := make([]byte, len(items))
	ids := make(map[string]struct{}, len(items))
	for i := range items {
		n := slices.Index(args[3:], items[i].opt) // there are few, mostly one
		if n < 0 {
			n = len(args) - 3
			args = append(args, items[i].opt)
		}
		which[i] = byte(n + 1) // settleItems is less than 255
		ids[items[i].id] = struct{}{}
	}
	if len(ids) < len(items) {
		args[1] = "1"
	}
	args[2] = itoa(int64(len(args) - 3))
	args = append(args, stringOf(which))
	for i := range items {
		it := &items[i]
		args = append(args, it.id, it.name)
		if it.flags&settleError != 0 && it.invalid == nil {
			args = append(args, it.err)
		}
		if it.flags&settleBlob != 0 {
			args = append(args, it.blob)
		}
		if len(it.follow) > 0 {
			at := len(args)
			args = appendIntake(append(args, ""), it.follow)
			args[at] = itoa(int64(len(args) + 1)) // where the script goes on
		}
		if it.push != nil {
			at := len(args)
			args = pushArgs(append(args, ""), it.push)
			args[at] = itoa(int64(len(args) - at - 1))
		}
	}
	m, err := s.eval(ctx, &s.main, scriptSettle, args)
	if err != nil {
		return nil, err
	}
	return readSettles(m, items)
}

func readSettles(m rueidis.RedisMessage, items []settlement) ([]store.SettleResult, error) {
	p, err := m.ToArray()
	if err != nil || len(p) != 2 {
		return nil, badReply("settle", err)
	}
	out, err := p[0].ToString()
	if err != nil || len(out) != 3*len(items) {
		return nil, badReply("settle", err)
	}
	follows, err := p[1].ToArray()
	if err != nil {
		return nil, badReply("settle", err)
	}
	res := make([]store.SettleResult, len(items))
	for i := range items {
		r := &res[i]
		r.State, r.Status = store.SettleState(out[3*i]), store.Status(out[3*i+1])
		r.Reason, _ = reasonOf(out[3*i+2])
		if out[3*i] == 9 {
			r.State, r.Err = 0, items[i].invalid
		}
		if len(items[i].follow) == 0 {
			continue
		}
		if len(follows) == 0 {
			return nil, badReply("settle", nil)
		}
		if r.State == store.SettleDone {
			if r.FollowUps, err = readIntake(follows[0], items[i].follow); err != nil {
				return nil, err
			}
		}
		follows = follows[1:]
	}
	return res, nil
}
