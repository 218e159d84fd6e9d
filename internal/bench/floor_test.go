package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/internal/redistest"
)

func TestRedisProbe(t *testing.T) {
	srv := redistest.Start(t)
	p, err := newRedisProbe(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	ctx := t.Context()
	before, err := p.cpu(ctx)
	if err != nil {
		t.Fatal(err)
	}
	rate, err := p.floor(ctx, 200, 200*time.Millisecond)
	if err != nil || rate < 1000 {
		t.Fatalf("floor %v/s, %v", rate, err)
	}
	if after, err := p.cpu(ctx); err != nil || after <= before {
		t.Errorf("the server's CPU went from %v to %v: %v", before, after, err)
	}
	if n, err := p.memory(ctx); err != nil || n < 100_000 {
		t.Errorf("memory %d, %v", n, err)
	}
	if l, err := p.label(ctx); err != nil || !strings.Contains(l, " ") || strings.Contains(l, "appendonly") {
		t.Errorf("label %q, %v", l, err)
	}
	left, err := srv.Do(ctx, "KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := left.AsStrSlice(); err != nil || len(keys) != 0 {
		t.Errorf("the floor probe left %v, %v", keys, err)
	}
}

func TestRedisLabelSaysHowItPersists(t *testing.T) {
	srv := redistest.Start(t, "--appendonly", "yes")
	p, err := newRedisProbe(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if l, err := p.label(t.Context()); err != nil || !strings.HasSuffix(l, " appendonly everysec") {
		t.Errorf("label %q, %v", l, err)
	}
}

func TestSQLiteFloor(t *testing.T) {
	rate, err := sqliteFloor(t.Context(), t.TempDir(), 200, 200*time.Millisecond)
	if err != nil || rate < 100 {
		t.Fatalf("floor %v/s, %v", rate, err)
	}
}
