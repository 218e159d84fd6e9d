package bench

import (
	"context"
	"time"
)

// usage is what something cost.
type usage struct {
	took          time.Duration
	store, client time.Duration // CPU
}

// measure runs f and says what it cost. What this process uses is the client's; a store that lives in it has none of its own.
func (b *bench) measure(ctx context.Context, f func() error) (usage, error) {
	storeBefore, err := b.target.cpu(ctx)
	if err != nil {
		return usage{}, err
	}
	clientBefore, err := processCPU()
	if err != nil {
		return usage{}, err
	}
	start := time.Now()
	if err := f(); err != nil {
		return usage{}, err
	}
	u := usage{took: time.Since(start)}
	clientAfter, err := processCPU()
	if err != nil {
		return u, err
	}
	storeAfter, err := b.target.cpu(ctx)
	u.store, u.client = storeAfter-storeBefore, clientAfter-clientBefore
	return u, err
}

// row starts a row with what n of something cost.
func (b *bench) row(name, variant string, n int, u usage) Row {
	r := Row{Row: name, Variant: variant, Store: b.target.label, N: n}
	if u.took > 0 {
		r.PerSecond = float64(n) / u.took.Seconds()
	}
	each := float64(max(1, n)) * float64(time.Microsecond)
	r.StoreCPU, r.ClientCPU = float64(u.store)/each, float64(u.client)/each
	return r
}

// cpuPercent is the share of one core that client and store used together.
func (u usage) cpuPercent() float64 {
	return 100 * (u.store + u.client).Seconds() / u.took.Seconds()
}

// floorFor is how long a floor probe takes.
const floorFor = time.Second

// withFloor adds the floor of the same minute to a row and shows it.
func (b *bench) withFloor(ctx context.Context, r Row) error {
	floor, err := b.target.floor(ctx, payloadBytes, floorFor)
	if err != nil {
		return err
	}
	r.FloorPerSecond = floor
	return b.opt.Show(r)
}
