package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/kube"
)

// serveMetrics serves /metrics. In a cluster, and unless that is turned off, readers must be known to it and allowed to; the server then speaks TLS with a
// certificate of its own, as llm-d-async's does.
func serveMetrics(cfg *config.Serve, reg *prometheus.Registry, log *slog.Logger) (stop func(), err error) {
	h := promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg, ErrorHandling: promhttp.ContinueOnError})
	var conf *tls.Config
	if cfg.MetricsAuth != "off" && cfg.MetricsPort != 0 {
		guard, in, err := kube.InCluster(os.Getenv, kube.AccountDir)
		switch {
		case err != nil:
			return nil, err
		case in:
			cert, err := kube.SelfSigned()
			if err != nil {
				return nil, err
			}
			h, conf = guard.Handler(h), &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
		case cfg.MetricsAuth == "on":
			return nil, usagef("metrics are to be guarded by Kubernetes, and this is no cluster; --metrics-endpoint-auth=false serves them to everybody")
		default:
			log.Info("metrics are served to everybody: this is no Kubernetes cluster", "port", cfg.MetricsPort)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	return serveHTTP(cfg.MetricsPort, mux, conf, log)
}

// serveHTTP serves on a port of all interfaces until stop is called; port 0 serves nothing. conf may be nil.
func serveHTTP(port int, h http.Handler, conf *tls.Config, log *slog.Logger) (stop func(), err error) {
	if port == 0 {
		return func() {}, nil
	}
	ln, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	if conf != nil {
		ln = tls.NewListener(ln, conf)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("a server has ended", "port", port, "error", err)
		}
	})
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close() // those who still wait are cut off
		}
		wg.Wait()
	}, nil
}
