package redisgate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/gate"
)

// BudgetConfig are the settings of [NewBudget].
type BudgetConfig struct {
	Open Open
	Key  string // "" means dispatch-gate-budget
	// Missing is the budget while there is no such key; nil means that this is no reading.
	Missing *float64
	// Fallback is the budget while there is no reading: Redis does not answer, or the value is no number in [0,1]. nil means 0, closed.
	Fallback *float64
	Every    time.Duration // between two looks; 0 means 1 s
	Timeout  time.Duration // of one; 0 means 2 s
	Stale    time.Duration // from which age a value is no reading any more; 0 means 15 s
	// Lag says that whoever writes the key measures what runs: the budget is then room beside it, and this is how long it takes until a start
	// shows. 0 says that it is a share of the permits.
	Lag  time.Duration
	Step float64 // the largest share of the permits that one step of a budget with a Lag opens; 0 means a quarter
}

// Gate is a gate on something in Redis.
type Gate struct {
	*gate.Meter
	source *source
}

// Run implements [gate.Runner]; the connection is closed when it ends.
func (g *Gate) Run(ctx context.Context) {
	g.Meter.Run(ctx)
	g.source.close()
}

// NewBudget returns a gate whose budget is a number under a key. The error names the field.
func NewBudget(cfg BudgetConfig) (*Gate, error) {
	if cfg.Open == nil {
		return nil, invalid("url", "is missing")
	}
	if cfg.Missing != nil && !(*cfg.Missing >= 0 && *cfg.Missing <= 1) {
		return nil, invalid("missing", "%v is not between 0 and 1", *cfg.Missing)
	}
	if cfg.Key == "" {
		cfg.Key = "dispatch-gate-budget"
	}
	if cfg.Every == 0 {
		cfg.Every = time.Second
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Second
	}
	if cfg.Stale == 0 {
		cfg.Stale = max(15*time.Second, 3*cfg.Every)
	}
	src := &source{open: cfg.Open}
	m, err := gate.NewMeter(gate.MeterConfig{
		Threshold: gate.None, Fallback: cfg.Fallback, Every: cfg.Every, Timeout: cfg.Timeout, Stale: cfg.Stale, Lag: cfg.Lag, Step: cfg.Step,
		Ask: func(ctx context.Context) (gate.Sample, error) { return cfg.ask(ctx, src) },
	})
	if err != nil {
		return nil, err
	}
	return &Gate{m, src}, nil
}

func (cfg *BudgetConfig) ask(ctx context.Context, src *source) (gate.Sample, error) {
	c, err := src.client(ctx)
	if err != nil {
		return gate.Sample{}, err
	}
	text, err := c.Do(ctx, c.B().Get().Key(cfg.Key).Build()).ToString()
	switch {
	case rueidis.IsRedisNil(err) && cfg.Missing != nil:
		return gate.Sample{Value: *cfg.Missing, Detail: "the key is not there"}, nil
	case rueidis.IsRedisNil(err):
		return gate.Sample{}, errors.New("there is no key " + cfg.Key)
	case err != nil:
		return gate.Sample{}, err
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(v) || v < 0 || v > 1 {
		return gate.Sample{}, fmt.Errorf("key %s has %q, which is no number between 0 and 1", cfg.Key, text[:min(len(text), 50)])
	}
	return gate.Sample{Value: v}, nil
}
