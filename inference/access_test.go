package inference

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
	"github.com/twolane/twolane/internal/redistest"
)

// The rights that docs/inference.md gives a user of Redis are enough: for requests, results, cancels, what predecessors left, and being told of changes.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("..", "docs", "inference.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`ACL SETUSER inference on >password (.*)`).FindStringSubmatch(string(doc))
	if m == nil {
		t.Fatal("docs/inference.md has no ACL")
	}
	r := &rig{TB: t, srv: redistest.StartUser(t, "inference", "password", strings.Fields(m[1])), gate: newGateway(t)}
	if r.redis, err = r.srv.Client(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.redis.Close)
	r.gate.answer = func(w http.ResponseWriter, req *http.Request, _ string) {
		if req.URL.Path == "/slow" {
			<-req.Context().Done()
		}
	}
	r.cfg = r.config(func(c *config.Config) { c.Queues[0].Name = "request-sortedset" })
	p := r.start(r.cfg)
	to := func(change func(*wire.Member)) func(*wire.Member) {
		return func(m *wire.Member) {
			m.Internal.RequestQueue, m.Internal.ResultQueue = "request-sortedset", "result-list"
			if change != nil {
				change(m)
			}
		}
	}
	r.submit(member("a", time.Minute, to(nil)), member("late", -time.Minute, to(nil)))
	r.results("result-list", 2, 10*time.Second)
	r.submit(member("large", time.Minute, to(func(m *wire.Member) { m.Data.Payload = []byte(`{"p":"` + strings.Repeat("x", 1<<20) + `"}`) })))
	r.results("result-list", 1, 10*time.Second)
	raw, err := member("retry", time.Minute, to(nil)).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	r.do("ZADD", "retry-sortedset", "1", string(raw))
	r.results("result-list", 1, 10*time.Second)
	r.do("HSET", "request-sortedset:claimed", "old", strings.ReplaceAll(string(raw), `"retry"`, `"old"`))
	r.do("ZADD", "request-sortedset:claims-idx", "1", "old")
	r.do("ZADD", "request-sortedset", "1", "no request")
	r.until("the claim and the dead letter are taken", 10*time.Second, func() bool {
		return r.do("EXISTS", "request-sortedset", "request-sortedset:claimed")[0] == "0" && p.numbers.ofID("request-sortedset").dead.Load() == 1
	})
	r.submit(member("slow", time.Minute, to(func(m *wire.Member) { m.Data.Endpoint = "/slow" })))
	r.until("it is in flight", 10*time.Second, func() bool { return p.numbers.ofID("request-sortedset").flying.Load() == 1 })
	r.cancel("slow")
	r.until("it is cancelled", 10*time.Second, func() bool { return p.numbers.ofID("request-sortedset").flying.Load() == 0 })
	if !p.told.Load() {
		t.Error("changes are not told")
	}
	if refused, err := r.srv.Do(t.Context(), "ACL", "LOG"); err != nil {
		t.Error(err)
	} else if list, err := refused.ToArray(); err != nil || len(list) > 0 {
		t.Errorf("%d commands were refused: %v", len(list), refused)
	}
}

// A gateway behind TLS is sent to when its certificate is signed by who should, and when it is shown the one that it asks for.
func TestGatewayTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "processor"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	clients := x509.NewCertPool()
	mine, err := x509.ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	clients.AddCert(mine)
	serve := func(auth tls.ClientAuthType) *httptest.Server {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "secret") }))
		srv.TLS = &tls.Config{ClientAuth: auth, ClientCAs: clients}
		srv.Config.ErrorLog = log.New(io.Discard, "", 0) // those who are refused are meant to be
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return srv
	}
	plain, mutual := serve(tls.NoClientCert), serve(tls.RequireAndVerifyClientCert)
	ca := write("ca.pem", "CERTIFICATE", plain.Certificate().Raw)
	certFile, keyFile := write("cert.pem", "CERTIFICATE", cert), write("key.pem", "PRIVATE KEY", keyBytes)
	for name, c := range map[string]struct {
		url  string
		http config.HTTP
		ok   bool
	}{
		"unknown authority":        {plain.URL, config.HTTP{}, false},
		"known authority":          {plain.URL, config.HTTP{CAFile: ca}, true},
		"nothing is checked":       {plain.URL, config.HTTP{SkipVerify: true}, true},
		"a certificate is missing": {mutual.URL, config.HTTP{CAFile: ca}, false},
		"a certificate is shown":   {mutual.URL, config.HTTP{CAFile: ca, CertFile: certFile, KeyFile: keyFile}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(cfg *config.Config) {
				h := &cfg.HTTP
				h.CAFile, h.CertFile, h.KeyFile, h.SkipVerify, cfg.Queues[0].BaseURL = c.http.CAFile, c.http.CertFile, c.http.KeyFile, c.http.SkipVerify, c.url
			})
			r.start(r.cfg)
			within := time.Minute
			if !c.ok {
				within = 2 * time.Second // it is tried until then, as a gateway may get another certificate
			}
			r.submit(member("a", within, nil))
			if x := r.results("res-a", 1, 20*time.Second)[0]; c.ok != (x.StatusCode == 200 && x.Payload == "secret") || !c.ok && x.ErrorCode != wire.CodeDeadline {
				t.Errorf("%+v", x)
			}
		})
	}
}

// Requests go where the operator's URL says, whatever proxies the environment names.
func TestNoProxy(t *testing.T) {
	s, err := newSender(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	if s.client.Transport.(*http.Transport).Proxy != nil {
		t.Error("a proxy may be used")
	}
}
