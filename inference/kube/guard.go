package kube

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// AccountDir is where a cluster puts the service account of a pod.
const AccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// cacheFor is how long an answer of the API server is believed, and cacheMost how many are kept.
const (
	cacheFor  = time.Minute
	cacheMost = 1000
)

// Guard asks the API server of a cluster.
type Guard struct {
	base   string
	dir    string
	client *http.Client

	mu    sync.Mutex
	known map[[32]byte]answer
}

type answer struct {
	code int
	till time.Time
}

// InCluster finds the API server by the environment of a pod; ok is false outside of a cluster.
func InCluster(env func(string) string, dir string) (g *Guard, ok bool, err error) {
	host, port := env("KUBERNETES_SERVICE_HOST"), env("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, false, nil
	}
	pem, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, false, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, false, fmt.Errorf("%s holds no certificate", filepath.Join(dir, "ca.crt"))
	}
	return &Guard{
		base: "https://" + net.JoinHostPort(host, port), dir: dir, known: map[[32]byte]answer{},
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}},
	}, true, nil
}

// Handler lets those through to h that may get the path of their request.
func (g *Guard) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || token == "" {
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		switch code := g.review(r.Context(), token, r.URL.Path); code {
		case http.StatusOK:
			h.ServeHTTP(w, r)
		default:
			http.Error(w, http.StatusText(code), code)
		}
	})
}

// review says by an HTTP status whether the owner of a token may get a path.
func (g *Guard) review(ctx context.Context, token, path string) int {
	key := sha256.Sum256([]byte(token + "\x00" + path))
	g.mu.Lock()
	a, ok := g.known[key]
	g.mu.Unlock()
	if ok && time.Now().Before(a.till) {
		return a.code
	}
	code, err := g.ask(ctx, token, path)
	if err != nil {
		return http.StatusInternalServerError // nobody is let in on doubt; it is asked again
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= cacheMost {
		clear(g.known)
	}
	g.known[key] = answer{code, time.Now().Add(cacheFor)}
	return code
}

type tokenReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Token string `json:"token"`
	} `json:"spec"`
	Status struct {
		Authenticated bool `json:"authenticated"`
		User          user `json:"user"`
	} `json:"status"`
}

type user struct {
	Username string              `json:"username"`
	UID      string              `json:"uid"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}

type accessReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		User        string              `json:"user"`
		UID         string              `json:"uid,omitempty"`
		Groups      []string            `json:"groups,omitempty"`
		Extra       map[string][]string `json:"extra,omitempty"`
		NonResource struct {
			Path string `json:"path"`
			Verb string `json:"verb"`
		} `json:"nonResourceAttributes"`
	} `json:"spec"`
	Status struct {
		Allowed bool `json:"allowed"`
	} `json:"status"`
}

func (g *Guard) ask(ctx context.Context, token, path string) (int, error) {
	t := tokenReview{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
	t.Spec.Token = token
	if err := g.post(ctx, "/apis/authentication.k8s.io/v1/tokenreviews", &t); err != nil {
		return 0, err
	}
	if !t.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	a := accessReview{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}
	u := t.Status.User
	a.Spec.User, a.Spec.UID, a.Spec.Groups, a.Spec.Extra = u.Username, u.UID, u.Groups, u.Extra
	a.Spec.NonResource.Path, a.Spec.NonResource.Verb = path, "get"
	if err := g.post(ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &a); err != nil {
		return 0, err
	}
	if !a.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// post sends v and reads the answer into it.
func (g *Guard) post(ctx context.Context, path string, v any) error {
	own, err := os.ReadFile(filepath.Join(g.dir, "token")) // it is renewed while we run
	if err != nil {
		return err
	}
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(own)))
	req.Header.Set("Content-Type", "application/json")
	res, err := g.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return errors.New("the API server answered " + res.Status)
	}
	return json.Unmarshal(data, v)
}
