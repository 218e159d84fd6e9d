package kube

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

func TestGuard(t *testing.T) {
	asked := 0
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.Header.Get("Authorization") != "Bearer own" {
			http.Error(w, "who?", http.StatusUnauthorized)
			return
		}
		var err error
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			var v tokenReview
			err = json.NewDecoder(r.Body).Decode(&v)
			if v.Spec.Token == "broken" {
				http.Error(w, "no", http.StatusInternalServerError)
				return
			}
			v.Status.Authenticated = v.Spec.Token != "stranger"
			v.Status.User = user{Username: v.Spec.Token, Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
			json.NewEncoder(w).Encode(v)
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			var v accessReview
			err = json.NewDecoder(r.Body).Decode(&v)
			v.Status.Allowed = v.Spec.User == "reader" && v.Spec.NonResource.Path == "/metrics" && v.Spec.NonResource.Verb == "get" && v.Spec.Groups[0] == "g" && v.Spec.Extra["k"][0] == "v"
			json.NewEncoder(w).Encode(v)
		default:
			http.NotFound(w, r)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	defer api.Close()
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	for name, data := range map[string][]byte{"ca.crt": ca, "token": []byte("own\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(api.URL)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"KUBERNETES_SERVICE_HOST": u.Hostname(), "KUBERNETES_SERVICE_PORT": u.Port()}
	g, ok, err := InCluster(func(k string) string { return env[k] }, dir)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	for _, c := range []struct {
		token, path string
		code, asks  int
	}{
		{"", "/metrics", 401, 0}, {"reader", "/metrics", 200, 2}, {"reader", "/metrics", 200, 0}, {"reader", "/other", 403, 2},
		{"stranger", "/metrics", 401, 1}, {"writer", "/metrics", 403, 2}, {"broken", "/metrics", 500, 1}, {"broken", "/metrics", 500, 1},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		w, before := httptest.NewRecorder(), asked
		h.ServeHTTP(w, r)
		if w.Code != c.code || asked-before != c.asks {
			t.Errorf("%s %s: %d after %d questions, want %d after %d", c.token, c.path, w.Code, asked-before, c.code, c.asks)
		}
	}
	if _, ok, err := InCluster(func(string) string { return "" }, dir); ok || err != nil {
		t.Error("a cluster where there is none", err)
	}
	if _, err := SelfSigned(); err != nil {
		t.Error(err)
	}
}
