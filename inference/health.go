package inference

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// Health serves /healthz, /livez and /readyz. The first two are about the process alone; the last says whether requests are taken and sent just now.
func (p *Processor) Health() http.Handler {
	mux := http.NewServeMux()
	alive := func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok", nil) }
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /livez", alive)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if reasons := p.NotReady(r.Context()); len(reasons) > 0 {
			say(w, http.StatusServiceUnavailable, "unavailable", reasons)
			return
		}
		say(w, http.StatusOK, "ok", nil)
	})
	return mux
}

func say(w http.ResponseWriter, code int, status string, reasons []string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// Whoever asked may be gone; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(struct {
		Status  string   `json:"status"`
		Reasons []string `json:"reasons,omitempty"`
	}{status, reasons})
}

// NotReady says why no requests are taken or sent; nothing if they are.
func (p *Processor) NotReady(ctx context.Context) []string {
	switch {
	case p.draining.Load():
		return []string{"it is stopping"}
	case !p.ready.Load():
		return []string{"it has not started"}
	}
	var reasons []string
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := p.redis.Do(ctx, p.redis.B().Ping().Build()).Error(); err != nil {
		reasons = append(reasons, "the producers' Redis does not answer: "+err.Error())
	}
	for _, o := range p.pools {
		if h := o.health(); !h.OK {
			reasons = append(reasons, h.Reasons...)
		}
	}
	slices.Sort(reasons)
	return slices.Compact(reasons)
}
