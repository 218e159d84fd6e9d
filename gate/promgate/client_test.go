package promgate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twolane/twolane/gate/promgate"
)

// serve runs a server that answers as f says.
func serve(t *testing.T, f http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

func vector(v string) string {
	return fmt.Sprintf(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000.1,%q]}]}}`, v)
}

// The same question from many at once is one query, and its answer is given again for a while. Nobody waits for somebody else's question.
func TestQueriesAreShared(t *testing.T) {
	var asked atomic.Int32
	release := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.FormValue("query") == "slow" {
			<-release
		}
		_, _ = w.Write([]byte(vector("0.5")))
	})
	c := client(t, promgate.ClientConfig{URL: url, Cache: time.Hour})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if s, err := c.Query(t.Context(), "slow"); err != nil || s.Value != 0.5 {
				t.Error(s, err)
			}
		})
	}
	gone, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Query(gone, "slow"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who gives up: %v", err)
	}
	begin := time.Now()
	if _, err := c.Query(t.Context(), "fast"); err != nil || time.Since(begin) > 5*time.Second {
		t.Errorf("another question waited %v: %v", time.Since(begin), err)
	}
	close(release)
	wg.Wait()
	if _, err := c.Query(t.Context(), "slow"); err != nil {
		t.Error(err)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("%d queries, want 2", n)
	}
}

// What is no answer of a Prometheus is an error that says so, whatever it is.
func TestAnswersThatLie(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"a page":             {200, "<html><body>Sign in</body></html>", "no answer of a Prometheus"},
		"nothing":            {200, "", "no answer of a Prometheus"},
		"other JSON":         {200, `{"hello":"world"}`, "no answer of a Prometheus"},
		"null":               {200, `null`, "no answer of a Prometheus"},
		"cut":                {200, vector("0.5")[:60], "no answer of a Prometheus"},
		"an error":           {503, `{"status":"error","errorType":"timeout","error":"query timed out"}`, "query timed out"},
		"an error as 200":    {200, `{"status":"error","errorType":"internal","error":"boom"}`, "boom"},
		"a gateway":          {502, "bad gateway", "status 502"},
		"success with a 500": {500, vector("0.5"), "status 500"},
		"no sample":          {200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}`, "no number"},
		"a bare number":      {200, `{"status":"success","data":{"resultType":"scalar","result":[1,2]}}`, "no number"},
		"a histogram":        {200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{}]}]}}`, "no number"},
		"another type":       {200, `{"status":"success","data":{"resultType":"streams","result":[]}}`, "no number"},
		"huge":               {200, strings.Repeat(" ", 2<<20) + vector("0.5"), "more than 1048576 bytes"},
		"infinite":           {200, vector("+Inf"), "no number"},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			_, err := client(t, promgate.ClientConfig{URL: url}).Query(t.Context(), "x")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want one with %q", err, c.want)
			}
		})
	}
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(strings.Replace(vector("0.5"), `"success",`, `"success","warnings":["some stores are away"],`, 1)))
	})
	if s, err := client(t, promgate.ClientConfig{URL: url}).Query(t.Context(), "x"); err != nil || !strings.Contains(s.Detail, "some stores are away") {
		t.Errorf("a warning: %+v %v", s, err)
	}
}

// A server that hangs is given up after the timeout: before the headers, and in the middle of the answer.
func TestServerHangs(t *testing.T) {
	done := make(chan struct{})
	defer close(done)
	for name, f := range map[string]http.HandlerFunc{
		"before": func(http.ResponseWriter, *http.Request) { <-done },
		"within": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"status":`))
			w.(http.Flusher).Flush()
			<-done
		},
	} {
		begin := time.Now()
		_, err := client(t, promgate.ClientConfig{URL: serve(t, f), Timeout: 100 * time.Millisecond}).Query(t.Context(), "x")
		if d := time.Since(begin); err == nil || d > 10*time.Second {
			t.Errorf("%s: %v after %v", name, err, d)
		}
	}
}

func TestRequests(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var methods []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		methods = append(methods, r.Method)
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if r.URL.Path != "/prefix/api/v1/query" || r.Header.Get("Authorization") != "Bearer abc" || r.Header.Get("X-Scope-OrgID") != "me" || r.FormValue("query") != `a{b="c d"}` {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		_, _ = w.Write([]byte(vector("1")))
	})
	c := client(t, promgate.ClientConfig{URL: url + "/prefix/", BearerFile: token, Headers: map[string]string{"X-Scope-OrgID": "me"}})
	for range 2 {
		if _, err := c.Query(t.Context(), `a{b="c d"}`); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(methods, " "); got != "POST GET GET" {
		t.Errorf("methods %s", got)
	}
	// It goes where the operator has pointed to, and nowhere else: not with a token.
	elsewhere := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("it was led away: %v", r.Header) })
	url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
	})
	if _, err := client(t, promgate.ClientConfig{URL: url, BearerFile: token}).Query(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "redirects") {
		t.Errorf("a redirect: %v", err)
	}
}
