package promgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/gate/internal/web"
	"github.com/twolane/twolane/store"
)

// ClientConfig says how to reach a Prometheus server. Secrets come from files, which are read again for each request.
type ClientConfig struct {
	URL string // of the server; the API is below it at api/v1
	// BearerFile is a file with a bearer token. User and PasswordFile are those of basic authentication.
	BearerFile, User, PasswordFile string
	Headers                        map[string]string // such as X-Scope-OrgID
	// CAFile is a PEM file of the authorities that sign the server's certificate; CertFile and KeyFile are the client's own certificate.
	CAFile, CertFile, KeyFile, ServerName string
	SkipVerify                            bool
	Timeout                               time.Duration // of one query; 0 means 10 s
	// Cache is for how long an answer is given again to whoever asks the same; 0 means 5 s, less than 0 not at all.
	Cache time.Duration
}

// Client asks a Prometheus server. Questions that are the same share one query while it is under way, and its answer for a while; nothing is locked
// meanwhile. It is safe for concurrent use.
type Client struct {
	web     *web.Client
	timeout time.Duration
	cache   time.Duration

	mu      sync.Mutex
	queries map[string]*query
	get     bool // the server takes no POST
}

// query is one that is under way, or its answer.
type query struct {
	done   chan struct{}
	at     time.Time // when it was sent
	sample gate.Sample
	err    error
}

const maxQueries = 1000

// NewClient checks the settings; the error names the field. It does not ask the server.
func NewClient(cfg ClientConfig) (*Client, error) {
	w, err := web.New(web.Config{
		URL: cfg.URL, BearerFile: cfg.BearerFile, User: cfg.User, PasswordFile: cfg.PasswordFile, Headers: cfg.Headers, CAFile: cfg.CAFile,
		CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, ServerName: cfg.ServerName, SkipVerify: cfg.SkipVerify, Timeout: cfg.Timeout,
	})
	if err != nil {
		return nil, err
	}
	c := &Client{web: w, timeout: cfg.Timeout, cache: cfg.Cache, queries: map[string]*query{}}
	if c.timeout == 0 {
		c.timeout = 10 * time.Second
	}
	if c.cache == 0 {
		c.cache = 5 * time.Second
	}
	return c, nil
}

// Close closes connections that are not in use.
func (c *Client) Close() { c.web.Close() }

// Errors of [Client.Query] that say that the server has answered, but with no number.
var (
	ErrNoSeries   = errors.New("the query has no series")
	ErrManySeries = errors.New("the query has more than one series: aggregate them")
	ErrNoNumber   = errors.New("the value is no number")
)

// Query evaluates an expression now. The answer is at most the cache's time old. Its error wraps [ErrNoSeries], [ErrManySeries] or
// [ErrNoNumber] if the answer is not one finite number.
func (c *Client) Query(ctx context.Context, expr string) (gate.Sample, error) {
	now := time.Now()
	c.mu.Lock()
	q := c.queries[expr]
	if q == nil || q.over() && now.Sub(q.at) >= c.cache {
		c.forget(now)
		q = &query{done: make(chan struct{}), at: now}
		c.queries[expr] = q
		go c.ask(q, expr)
	}
	c.mu.Unlock()
	select {
	case <-q.done:
		return q.sample, q.err
	case <-ctx.Done():
		return gate.Sample{}, context.Cause(ctx)
	}
}

func (q *query) over() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// forget drops old answers when there are many.
func (c *Client) forget(now time.Time) {
	if len(c.queries) < maxQueries {
		return
	}
	for expr, q := range c.queries {
		if q.over() && now.Sub(q.at) >= c.cache {
			delete(c.queries, expr)
		}
	}
}

// ask makes a query of its own: whoever asked first may give up while others still wait for it.
func (c *Client) ask(q *query, expr string) {
	defer close(q.done)
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	a, err := c.send(ctx, url.Values{"query": {expr}})
	if err != nil {
		q.err = err
		return
	}
	if q.sample, q.err = parse(a); q.err != nil {
		q.err = fmt.Errorf("%s: %w", c.web.URL(), q.err)
	}
	q.sample.At = q.at
}

func (c *Client) send(ctx context.Context, form url.Values) (web.Answer, error) {
	c.mu.Lock()
	get := c.get
	c.mu.Unlock()
	if !get {
		a, err := c.web.Post(ctx, "api/v1/query", form)
		if err != nil || a.Status != http.StatusMethodNotAllowed && a.Status != http.StatusNotImplemented {
			return a, err
		}
		c.mu.Lock()
		c.get = true
		c.mu.Unlock()
	}
	return c.web.GetQuery(ctx, "api/v1/query", form)
}

// response is what the API answers.
type response struct {
	Status    string
	ErrorType string
	Error     string
	Warnings  []string
	Data      struct {
		ResultType string
		Result     json.RawMessage
	}
}

// parse reads one finite number out of an answer.
func parse(a web.Answer) (s gate.Sample, err error) {
	var r response
	if err := json.Unmarshal(a.Body, &r); err != nil || r.Status == "" {
		return s, fmt.Errorf("status %d with %s, which is no answer of a Prometheus API", a.Status, short(a))
	}
	if r.Status != "success" {
		return s, fmt.Errorf("status %d: %s: %s", a.Status, r.ErrorType, cut(r.Error))
	}
	if a.Status != http.StatusOK {
		return s, fmt.Errorf("status %d", a.Status)
	}
	var point []any
	switch r.Data.ResultType {
	case "vector":
		var series []struct{ Value []any }
		if err := json.Unmarshal(r.Data.Result, &series); err != nil {
			return s, fmt.Errorf("the vector cannot be read: %w", err)
		}
		switch len(series) {
		case 0:
			return s, ErrNoSeries
		case 1:
			point = series[0].Value
		default:
			return s, fmt.Errorf("%w (%d)", ErrManySeries, len(series))
		}
	case "scalar":
		if err := json.Unmarshal(r.Data.Result, &point); err != nil {
			return s, fmt.Errorf("the scalar cannot be read: %w", err)
		}
	default:
		return s, fmt.Errorf("%w: the result is a %s", ErrNoNumber, cut(r.Data.ResultType))
	}
	if len(point) != 2 {
		return s, fmt.Errorf("%w: the sample has %d parts", ErrNoNumber, len(point))
	}
	text, ok := point[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || v-v != 0 {
		return s, fmt.Errorf("%w: %q", ErrNoNumber, cut(fmt.Sprint(point[1])))
	}
	s.Value = v
	if len(r.Warnings) > 0 {
		s.Detail = "warning: " + cut(strings.Join(r.Warnings, "; "))
	}
	return s, nil
}

func short(a web.Answer) string {
	return fmt.Sprintf("%s of %d bytes", cut(a.Type), len(a.Body))
}

func cut(s string) string {
	const most = 200
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

func invalid(field, format string, a ...any) error {
	return &store.InvalidError{Field: field, Detail: fmt.Sprintf(format, a...)}
}
