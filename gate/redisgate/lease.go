package redisgate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/gate"
)

// LeaseConfig are the settings of [NewLeasedRate].
type LeaseConfig struct {
	Open       Open
	ControlKey string // hash with api_version, pool_id, max_admission_rps, valid_until_unix_ms and decision_id
	PoolID     string // that the lease must be for; "" takes any
	// BurstSeconds is for how long the rate may be saved up; 0 means 1.
	BurstSeconds float64
	Every        time.Duration // between two looks; 0 means 1 s
	Timeout      time.Duration // of one; 0 means 2 s
}

// errNoLease says that Redis was asked and has no lease that holds.
var errNoLease = errors.New("no lease")

// leaseVersion is the api_version that is understood.
const leaseVersion = "llm-d.ai/v1alpha1"

// LeasedRate is a gate that a controller elsewhere lets start so many invocations in a second, for as long as its lease says. It is a
// [gate.Pacer]: the rate is kept in the store, so that it holds for all workers together. A lease that is over, for somebody else, or cannot be
// read closes the gate; a rate of 0 is a pause.
type LeasedRate struct {
	Gate
	lease atomic.Pointer[lease]
}

type lease struct {
	rate  float64
	burst int
	until time.Time // by this machine's clock
}

// NewLeasedRate checks the settings; the error names the field.
func NewLeasedRate(cfg LeaseConfig) (*LeasedRate, error) {
	switch {
	case cfg.Open == nil:
		return nil, invalid("url", "is missing")
	case cfg.ControlKey == "":
		return nil, invalid("control_key", "is missing")
	case cfg.BurstSeconds < 0 || cfg.BurstSeconds > 3600 || cfg.BurstSeconds != cfg.BurstSeconds:
		return nil, invalid("burst_seconds", "%v is not between 0 and 3600", cfg.BurstSeconds)
	}
	if cfg.BurstSeconds == 0 {
		cfg.BurstSeconds = 1
	}
	if cfg.Every == 0 {
		cfg.Every = time.Second
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Second
	}
	g := &LeasedRate{Gate: Gate{source: &source{open: cfg.Open}}}
	var err error
	g.Meter, err = gate.NewMeter(gate.MeterConfig{
		Threshold: gate.None, Every: cfg.Every, Timeout: cfg.Timeout, Stale: max(15*time.Second, 3*cfg.Every),
		Budget: func(rate float64) float64 { return math.Ceil(rate) }, // none or all
		Ask: func(ctx context.Context) (gate.Sample, error) {
			l, detail, err := cfg.read(ctx, g.source)
			if errors.Is(err, errNoLease) { // it was taken back: what it allowed does not hold to its end
				g.lease.Store(nil)
			}
			if err != nil {
				return gate.Sample{}, err
			}
			g.lease.Store(l)
			return gate.Sample{Value: l.rate, Detail: detail}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// read reads the lease, judged by the clock of Redis.
func (cfg *LeaseConfig) read(ctx context.Context, src *source) (*lease, string, error) {
	c, err := src.client(ctx)
	if err != nil {
		return nil, "", err
	}
	begin := time.Now()
	res := c.DoMulti(ctx, c.B().Time().Build(),
		c.B().Hmget().Key(cfg.ControlKey).Field("api_version", "pool_id", "max_admission_rps", "valid_until_unix_ms", "decision_id").Build())
	clock, err := res[0].AsStrSlice()
	if err != nil || len(clock) != 2 {
		return nil, "", errors.Join(err, errors.New("the time cannot be read"))
	}
	sec, err1 := strconv.ParseInt(clock[0], 10, 64)
	micros, err2 := strconv.ParseInt(clock[1], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return nil, "", err
	}
	fields, err := res[1].ToArray()
	if err != nil || len(fields) != 5 {
		return nil, "", errors.Join(err, errors.New("the lease cannot be read"))
	}
	var f [5]string
	for i := range f {
		if f[i], err = fields[i].ToString(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, "", err
		}
	}
	rate, err1 := strconv.ParseFloat(f[2], 64)
	until, err2 := strconv.ParseInt(f[3], 10, 64)
	left := time.Duration(until-sec*1000-micros/1000) * time.Millisecond
	switch {
	case f == [5]string{}:
		return nil, "", fmt.Errorf("%w: there is no lease %s", errNoLease, cfg.ControlKey)
	case f[0] != leaseVersion:
		return nil, "", fmt.Errorf("%w: the lease is of version %q, not %q", errNoLease, cut(f[0]), leaseVersion)
	case cfg.PoolID != "" && f[1] != cfg.PoolID:
		return nil, "", fmt.Errorf("%w: the lease is for pool %q", errNoLease, cut(f[1]))
	case err1 != nil || !(rate >= 0 && rate <= 1e6):
		return nil, "", fmt.Errorf("%w: the rate of the lease is %q", errNoLease, cut(f[2]))
	case err2 != nil || until <= 0 || until > 1<<52:
		return nil, "", fmt.Errorf("%w: the end of the lease is %q", errNoLease, cut(f[3]))
	case left <= 0:
		return nil, "", fmt.Errorf("%w: the lease is over since %v", errNoLease, -left)
	}
	burst := int(min(1e6, max(1, rate*cfg.BurstSeconds)))
	return &lease{rate: rate, burst: burst, until: begin.Add(left)}, "decision " + cut(f[4]), nil
}

func cut(s string) string { return s[:min(len(s), 50)] }

// Read implements [gate.Gate].
func (g *LeasedRate) Read(now time.Time, s gate.Scope) gate.Reading {
	r := g.Meter.Read(now, s)
	switch l := g.lease.Load(); {
	case r.Budget == 0:
	case l == nil:
		r.Budget, r.Up, r.Reason = 0, false, gate.NoReading
	case !now.Before(l.until):
		r.Budget, r.Up, r.Reason, r.Detail = 0, false, gate.NoReading, "the lease is over"
	}
	return r
}

// Lease is the lease that holds now; ok is false if none does. A rate of 0 is a pause.
func (g *LeasedRate) Lease(now time.Time) (rate float64, until time.Time, ok bool) {
	l := g.lease.Load()
	if l == nil || !now.Before(l.until) {
		return 0, time.Time{}, false
	}
	return l.rate, l.until, true
}

// Pace implements [gate.Pacer].
func (g *LeasedRate) Pace(now time.Time) (gate.Pace, bool) {
	l := g.lease.Load()
	if rate, _, ok := g.Lease(now); !ok || rate == 0 {
		return gate.Pace{}, false
	}
	return gate.Pace{Rate: l.rate, Burst: l.burst, Until: l.until}, true
}
