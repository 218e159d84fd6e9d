package cloudsim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Server serves a [Cloud] on a loopback port.
type Server struct {
	cloud *Cloud
	http  *http.Server
	ln    net.Listener
	done  chan error
}

// Serve starts to serve c on a free loopback port. Routes are further handlers by ServeMux pattern, that cost no token. The
// caller ends it with Close.
func Serve(c *Cloud, routes map[string]http.HandlerFunc) (*Server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cloudsim: %w", err)
	}
	s := &Server{cloud: c, ln: ln, done: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathTasks, s.start)
	mux.HandleFunc("POST "+pathDescribe, s.describe)
	mux.HandleFunc("DELETE "+pathTask+"{id}", s.delete)
	mux.HandleFunc("POST "+pathBegin, s.begin)
	mux.HandleFunc("POST "+pathEnd, s.end)
	for pattern, h := range routes {
		mux.HandleFunc(pattern, h)
	}
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { s.done <- s.http.Serve(ln) }()
	return s, nil
}

// URL is the address for [NewClient].
func (s *Server) URL() string { return "http://" + s.ln.Addr().String() }

// Close lets calls under way finish within ctx and frees the port.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if end := <-s.done; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// call admits, waits out the latency, and has the effect or the fault that were drawn. The effect does not depend on whether the
// caller is still there, as in a real cloud.
func (s *Server) call(w http.ResponseWriter, kind, key string, effect func() (any, error)) {
	if ok, wait := s.cloud.Admit(time.Now()); !ok {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
		http.Error(w, "rate exceeded", http.StatusTooManyRequests)
		return
	}
	plan := s.cloud.Plan(kind, key)
	time.Sleep(plan.Latency)
	if plan.Fault == FaultBefore {
		http.Error(w, "internal error (nothing was done)", http.StatusInternalServerError)
		return
	}
	reply, err := effect()
	switch {
	case plan.Fault == FaultAfter:
		http.Error(w, "internal error (it may have been done)", http.StatusBadGateway)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		answer(w, reply)
	}
}

func (s *Server) start(w http.ResponseWriter, r *http.Request) {
	var req startRequest
	if !read(w, r, &req) {
		return
	}
	key := r.Header.Get(headerKey)
	if key == "" || req.Command == "" {
		http.Error(w, "a start needs "+headerKey+" and a command", http.StatusBadRequest)
		return
	}
	s.call(w, "start", key, func() (any, error) { return s.cloud.Start(time.Now(), key, req.Command), nil })
}

func (s *Server) describe(w http.ResponseWriter, r *http.Request) {
	var req describeRequest
	if !read(w, r, &req) {
		return
	}
	s.call(w, "describe", strings.Join(req.IDs, ","), func() (any, error) {
		tasks, err := s.cloud.Describe(time.Now(), req.IDs)
		return describeReply{Tasks: tasks}, err
	})
}

func (s *Server) delete(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.call(w, "delete", id, func() (any, error) {
		t, ok := s.cloud.Delete(time.Now(), id)
		if !ok {
			return nil, fmt.Errorf("no task %q", id)
		}
		return t, nil
	})
}

func (s *Server) begin(w http.ResponseWriter, r *http.Request) {
	var req beginRequest
	if !read(w, r, &req) {
		return
	}
	s.cloud.Begin(time.Now(), req.Worker, req.Lane, req.Invocation, req.Commands)
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) end(w http.ResponseWriter, r *http.Request) {
	var req endRequest
	if !read(w, r, &req) {
		return
	}
	s.cloud.End(req.Invocation)
	w.WriteHeader(http.StatusNoContent)
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(into); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// An error here means that the caller has gone: it will ask again.
	_ = json.NewEncoder(w).Encode(v)
}
