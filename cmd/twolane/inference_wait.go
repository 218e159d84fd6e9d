package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// front answers probes: as the processor does once there is one, and until then that the process lives and is not ready.
type front struct {
	behind atomic.Pointer[http.Handler]
	why    atomic.Pointer[string]
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := f.behind.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	code, body := http.StatusOK, map[string]any{"status": "ok"}
	switch r.URL.Path {
	case "/healthz", "/livez":
	case "/readyz":
		code, body = http.StatusServiceUnavailable, map[string]any{"status": "unavailable", "reasons": []string{"it has not started"}}
		if why := f.why.Load(); why != nil {
			body["reasons"] = []string{*why}
		}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // whoever asked may be gone
}

// patiently calls open until it succeeds, fails with something that waiting does not help, or ctx ends: a Redis that starts after us, or loads its data, is
// waited for. What is wrong is told once, and when it changes.
func (f *front) patiently(ctx context.Context, log *slog.Logger, every time.Duration, open func() error) error {
	told := ""
	for {
		err := open()
		if err == nil || !passing(err) || ctx.Err() != nil {
			if err == nil && told != "" {
				log.Info("Redis answers")
			}
			return err
		}
		why := "Redis does not answer, and is waited for: " + err.Error()
		f.why.Store(&why)
		if kind := kindOf(err); kind != told {
			told = kind
			log.Warn("Redis does not answer, and is waited for", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// passing reports whether an error may go away by itself.
func passing(err error) bool {
	_, isNet := errors.AsType[net.Error](err)
	return isNet || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "LOADING ")
}

// kindOf is an error without the ports in it, which differ each time.
func kindOf(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}
