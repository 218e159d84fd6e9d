package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/twolane/twolane/store"
)

// renewItems bounds one script call.
const renewItems = 500

// Renew implements [store.Store]. It has a connection of its own.
func (s *Store) Renew(ctx context.Context, req store.RenewRequest) (store.RenewReply, error) {
	if err := tooMany(len(req.Leases)); err != nil {
		return store.RenewReply{}, err
	}
	if err := store.ValidName("worker", req.Worker.ID); err != nil {
		return store.RenewReply{}, err
	}
	for i := range req.Leases {
		if n := len(req.Leases[i].Progress); n > store.MaxProgress {
			return store.RenewReply{}, &store.InvalidError{Field: "progress", Detail: fmt.Sprintf("has %d bytes, at most %d are allowed", n, store.MaxProgress), Max: store.MaxProgress}
		}
	}
	done, err := s.begin(ctx)
	if err != nil {
		return store.RenewReply{}, err
	}
	defer done()
	registration, err := json.Marshal(&req.Worker)
	if err != nil {
		return store.RenewReply{}, fmt.Errorf("registration: %w", err)
	}
	rep := store.RenewReply{Results: make([]store.RenewResult, 0, len(req.Leases))}
	for first := true; first || len(req.Leases) > 0; first = false {
		part := req.Leases[:min(len(req.Leases), renewItems)]
		req.Leases = req.Leases[len(part):]
		if err := s.renewPart(ctx, &req, string(registration), part, &rep); err != nil {
			return rep, err
		}
	}
	return rep, nil
}

func (s *Store) renewPart(ctx context.Context, req *store.RenewRequest, registration string, part []store.RenewItem, rep *store.RenewReply) error {
	args := make([]string, 0, 4+3*len(part))
	args = append(args, req.Worker.ID, registration, boolArg(req.Gone), itoa(int64(len(part))))
	for i := range part {
		flags := byte('0')
		if part[i].Overdue {
			flags++
		}
		if part[i].Progress != nil {
			flags += 2
		}
		args = append(args, part[i].ID, part[i].Lease.String(), string(rune(flags)))
		if part[i].Progress != nil {
			args = append(args, stringOf(part[i].Progress))
		}
	}
	m, err := s.eval(ctx, &s.renew, scriptRenew, args)
	if err != nil {
		return err
	}
	p, err := m.ToArray()
	if err != nil || len(p) != 3 {
		return badReply("renew", err)
	}
	before := rep.MaintainReply
	if rep.MaintainReply, _, err = readMaintain(p[0]); err != nil {
		return err
	}
	rep.Reaped += before.Reaped
	rep.Expired += before.Expired
	rep.Promoted += before.Promoted
	rep.Purged += before.Purged
	rep.Lost += before.Lost
	rep.ClaimLost += before.ClaimLost
	states, err := p[1].ToString()
	if err != nil || len(states) != len(part) {
		return badReply("renew", err)
	}
	for _, b := range []byte(states) {
		r := store.RenewResult{State: store.RenewLost, Cancel: b&4 != 0}
		switch b & 3 {
		case 1:
			r.State = store.RenewOK
		case 2:
			r.State = store.RenewRefused
		}
		rep.Results = append(rep.Results, r)
	}
	n, err := p[2].AsInt64()
	if err != nil {
		return badReply("renew", err)
	}
	rep.Workers = int(n)
	return nil
}

// parseWorker reads a registration: "seen expires JSON".
func parseWorker(v string) (store.Worker, bool) {
	var w store.Worker
	seen, rest, ok1 := strings.Cut(v, " ")
	expires, text, ok2 := strings.Cut(rest, " ")
	if !ok1 || !ok2 || json.Unmarshal([]byte(text), &w) != nil {
		return w, false
	}
	a, err1 := strconv.ParseInt(seen, 10, 64)
	b, err2 := strconv.ParseInt(expires, 10, 64)
	w.Seen, w.Expires = store.Millis(a), store.Millis(b)
	return w, err1 == nil && err2 == nil
}
