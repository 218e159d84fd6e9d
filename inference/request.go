package inference

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
)

// outgoing is a request as it is sent.
type outgoing struct {
	target string
	header http.Header
	body   []byte
}

// request makes what is sent. If it cannot, r is nil and the rest says how the attempt ends.
func (a *attempt) request(ctx context.Context) (r *outgoing, out twolane.Outcome, err error) {
	target, err := a.q.target(a.m.Data.Endpoint)
	if err != nil {
		return nil, a.invalid(err), nil
	}
	header, err := a.header()
	if err != nil {
		return nil, a.invalid(err), nil
	}
	body, ok, err := a.body(ctx)
	if err != nil {
		return nil, twolane.Outcome{}, err
	}
	if !ok {
		a.p.numbers.of(a.q).ended(endedFailed)
		return nil, a.fail(wire.CodeUnavailable, "the payload is gone: "+wire.PayloadKey(a.m.Data.ID, a.m.Internal.Token)), nil
	}
	body, typ, err := transform(a.p.cfg.Transforms, a.m, body)
	if err != nil {
		return nil, a.invalid(err), nil
	}
	if typ != "" {
		header.Set("Content-Type", typ)
	}
	return &outgoing{target: target, header: header, body: body}, out, nil
}

// invalid ends a request that can never be sent.
func (a *attempt) invalid(err error) twolane.Outcome {
	a.p.numbers.of(a.q).ended(endedInvalid)
	return a.fail(wire.CodeInvalid, err.Error())
}

// header makes the headers: ours, then those of the caller, then what dispatch says of fairness and priority.
func (a *attempt) header() (http.Header, error) {
	d := &a.p.cfg.Dispatch
	h := http.Header{"Content-Type": {"application/json"}}
	lane := a.lane()
	objective := a.q.Objective
	if lane >= 0 && d.LaneObjectives[config.LaneNames[lane]] != "" {
		objective = d.LaneObjectives[config.LaneNames[lane]]
	}
	if objective != "" {
		for _, name := range d.ObjectiveHeaders {
			h.Set(name, objective)
		}
	}
	for name, v := range a.m.Data.Headers {
		if !config.HeaderName(name) || !config.HeaderValue(v) {
			return nil, fmt.Errorf("the header %q cannot be sent", name)
		}
		h.Set(name, v)
	}
	if who := a.m.Data.Metadata[d.FairnessAttribute]; d.FairnessHeader != "" && who != "" && len(who) <= 256 && config.HeaderValue(who) {
		h.Set(d.FairnessHeader, who)
	}
	if lane >= 0 && d.PriorityHeader != "" {
		h.Set(d.PriorityHeader, strconv.Itoa(lane))
	}
	if tp := a.m.Data.Metadata["traceparent"]; traceparent.MatchString(tp) && h.Get("Traceparent") == "" {
		h.Set("Traceparent", tp)
		if ts := a.m.Data.Metadata["tracestate"]; ts != "" && config.HeaderValue(ts) {
			h.Set("Tracestate", ts)
		}
	}
	return h, nil
}

var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// body is the payload as it was written; ok is false if it is gone.
func (a *attempt) body(ctx context.Context) (body []byte, ok bool, err error) {
	if a.m.Data.Payload != nil {
		return a.m.Data.Payload, true, nil
	}
	key := a.job.Metadata()[metaPayload]
	if key == "" {
		return []byte("null"), true, nil
	}
	body, err = a.p.redis.Do(ctx, a.p.redis.B().Get().Key(key).Build()).AsBytes()
	if rueidis.IsRedisNil(err) {
		return nil, false, nil
	}
	return body, err == nil, err
}

// answeredPrefix begins the error of an attempt that the gateway answered; lastAnswer reads it.
const answeredPrefix = "the gateway answered "

var answered = regexp.MustCompile(`(?s)^` + answeredPrefix + `([0-9]{3})(?: \([^)]*\))?: (.*)$`)

// lastAnswer reads the response that an attempt ended with, from the error that it left.
func lastAnswer(text string) (status int, body string, ok bool) {
	m := answered.FindStringSubmatch(text)
	if m == nil {
		return 0, "", false
	}
	status, err := strconv.Atoi(m[1])
	return status, m[2], err == nil
}
