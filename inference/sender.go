package inference

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/twolane/twolane/inference/config"
)

// sender sends requests to gateways.
type sender struct {
	client *http.Client
	most   int64 // bytes of a response
}

func newSender(c *config.Config) (*sender, error) {
	conf, err := gatewayTLS(&c.HTTP)
	if err != nil {
		return nil, err
	}
	workers := 0
	for _, p := range c.Pools {
		workers += p.Workers
	}
	// No proxy, whatever the environment says: where requests go is the operator's URL alone, as it was in llm-d-async.
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		DialContext: dialer.DialContext, ForceAttemptHTTP2: true, TLSClientConfig: conf, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConns: workers, MaxIdleConnsPerHost: workers, IdleConnTimeout: 90 * time.Second, ExpectContinueTimeout: time.Second,
	}
	return &sender{most: c.HTTP.MaxResponse, client: &http.Client{
		Transport: t,
		// A gateway that sends the request elsewhere is not followed: where requests go is the operator's alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func gatewayTLS(h *config.HTTP) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: h.SkipVerify}
	if h.CAFile != "" {
		pem, err := os.ReadFile(h.CAFile)
		if err != nil {
			return nil, err
		}
		if conf.RootCAs, err = x509.SystemCertPool(); err != nil {
			conf.RootCAs = x509.NewCertPool()
		}
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", h.CAFile)
		}
	}
	if h.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(h.CertFile, h.KeyFile)
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

func (s *sender) close() { s.client.CloseIdleConnections() }

// response is what a gateway answered.
type response struct {
	status int
	header http.Header
	body   []byte
}

// errTooLarge says that a response is longer than the configuration allows.
var errTooLarge = errors.New("the response is too large")

// send makes one attempt. An error says that no whole response came.
func (s *sender) send(ctx context.Context, target string, header http.Header, body []byte) (*response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.ContentLength > s.most {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", errTooLarge, res.ContentLength, s.most)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, s.most+1))
	if err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	if int64(len(data)) > s.most {
		return nil, fmt.Errorf("%w: it has more than %d bytes", errTooLarge, s.most)
	}
	return &response{status: res.StatusCode, header: res.Header, body: data}, nil
}

// jitter is half of d and a random part of the other half.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
