// Command gateway stands in for an inference gateway: it answers every POST as a model would, after a while. Requests to /slow are never answered.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

func main() {
	addr := flag.String("listen", "127.0.0.1:8000", "address to listen on")
	delay := flag.Duration("delay", 200*time.Millisecond, "how long an answer takes")
	failing := flag.Int64("failing", 5, "each such answer is a 503; 0 for none")
	flag.Parse()
	g := &gateway{delay: *delay, failing: *failing}
	srv := &http.Server{Addr: *addr, Handler: g, ReadHeaderTimeout: 5 * time.Second}
	log.Printf("gateway: listening on %s", *addr)
	log.Fatal(srv.ListenAndServe())
}

type gateway struct {
	delay   time.Duration
	failing int64
	n       atomic.Int64
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct{ Model, Prompt string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	wait := g.delay
	if r.URL.Path == "/slow" {
		wait = time.Hour
	}
	select {
	case <-time.After(wait):
	case <-r.Context().Done(): // a deadline, or a cancel
		log.Printf("gateway: %q was given up", in.Prompt)
		return
	}
	n := g.n.Add(1)
	if g.failing > 0 && n%g.failing == 0 {
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
		return
	}
	words := len(strings.Fields(in.Prompt))
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"cmpl-%d","object":"text_completion","model":%q,"choices":[{"index":0,"text":%q,"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%[4]d}}`,
		n, in.Model, strings.ToUpper(in.Prompt), words)
}
