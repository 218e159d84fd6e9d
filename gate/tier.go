package gate

import (
	"time"

	"github.com/twolane/twolane/store"
)

// TierConfig are the settings of [TierPriority].
type TierConfig struct {
	// Saturation is the gate that says whether the backend is saturated: it is while its budget is 0, or while it does not let the command run.
	Saturation Gate
	// Label is the declared key, or else the metadata, that names the tier of a command: interactive, async or batch. "" means tier.
	Label string
	// Dropped is the result of what is dropped; nil means {"error": "Too Many Requests", "code": 429}.
	Dropped []byte
}

// Tiers. What has none, or another one, counts as TierBatch.
const (
	TierInteractive = "interactive"
	TierAsync       = "async"
	TierBatch       = "batch"
)

// TierPriority decides who gives way while the backend is saturated: a reserved command waits; an overflow one of the interactive tier is
// dropped, since nobody would wait for it; every other one is refused. While that is not known, nothing runs and nothing is dropped. It looks at every
// command, so its own budget is open.
type TierPriority struct {
	wrapped
	label   string
	dropped []byte
}

// NewTierPriority checks the settings; the error names the field.
func NewTierPriority(cfg TierConfig) (*TierPriority, error) {
	if cfg.Saturation == nil {
		return nil, invalid("saturation_gate", "is missing")
	}
	t := &TierPriority{wrapped: wrapped{cfg.Saturation}, label: cfg.Label, dropped: cfg.Dropped}
	if t.label == "" {
		t.label = "tier"
	}
	if t.dropped == nil {
		t.dropped = []byte(`{"error": "Too Many Requests", "code": 429}`)
	}
	return t, nil
}

// Read implements [Gate]. While the backend is saturated a quarter of the permits is open beside what runs, to find whom to drop.
func (t *TierPriority) Read(now time.Time, s Scope) Reading {
	r := t.inner.Read(now, s).Normal()
	if r.Budget == 0 {
		look := max(1, float64(s.Permits)/4)
		r.Budget, r.Lag, r.Opens = 1, 0, time.Time{}
		if s.Permits > 0 {
			r.Budget = min(1, (float64(s.Held)+look)/float64(s.Permits))
		}
		r.Cap = r.Budget
	}
	return r
}

// Tier is the tier of a command as the gate sees it.
func (t *TierPriority) Tier(job *Job) (tier string, declared bool) {
	v, declared := job.Key(t.label)
	if !declared {
		v = job.Metadata[t.label]
	}
	if v != TierInteractive && v != TierAsync {
		v = TierBatch
	}
	return v, declared
}

func (t *TierPriority) judgesItself() {}

// Judge implements [Judge].
func (t *TierPriority) Judge(now time.Time, s Scope, job *Job) Verdict {
	r := t.inner.Read(now, s).Normal()
	if r.Budget > 0 {
		v := t.judge(now, s, job)
		if v.Decision == Continue {
			return v
		}
	}
	tier, declared := t.Tier(job)
	v, known := Verdict{Decision: Refuse, Detail: "the backend is saturated"}, r.Reason != NoReading
	if !known {
		v.Detail = "whether the backend is saturated is not known"
	}
	switch {
	case !job.Overflow:
		v.Decision = Wait
	case tier == TierInteractive && known:
		v.Decision, v.Result = Drop, t.dropped
		return v
	}
	if declared && tier != TierInteractive { // nobody of it is dropped: all of it can wait in the store
		value, _ := job.Key(t.label)
		v.Close = &Key{By: store.ByKey, Name: t.label, Value: value}
	}
	return v
}
