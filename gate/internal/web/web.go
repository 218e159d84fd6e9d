// Package web asks HTTP servers for what gates want to know: with secrets from files, TLS, and a bound on everything.
package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
)

// Config says how to reach a server. Secrets come from files, which are read again for each request, so that they may be replaced.
type Config struct {
	URL string
	// BearerFile is a file with a bearer token. User and PasswordFile are those of basic authentication.
	BearerFile, User, PasswordFile string
	// Headers are sent with each request, such as X-Scope-OrgID.
	Headers map[string]string
	// CAFile is a PEM file of the authorities that sign the server's certificate; empty means the system's. CertFile and KeyFile are the
	// client's own certificate. ServerName is what the server's certificate has to be for, if not for the host of the URL.
	CAFile, CertFile, KeyFile, ServerName string
	SkipVerify                            bool          // do not check the server's certificate
	Timeout                               time.Duration // of one request, whatever the caller's context says; 0 means 10 s
	MaxBytes                              int64         // of an answer; 0 means 1 MiB
}

// Client asks one server. It is safe for concurrent use.
type Client struct {
	cfg  Config
	url  *url.URL
	http *http.Client
}

func invalid(field, format string, a ...any) error {
	return &store.InvalidError{Field: field, Detail: fmt.Sprintf(format, a...)}
}

// New checks the settings; the error names the field. Files of secrets are looked at, files of certificates are read.
func New(cfg Config) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	switch {
	case cfg.URL == "":
		return nil, invalid("url", "is missing")
	case err != nil:
		return nil, invalid("url", "%v", errors.Unwrap(err))
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, invalid("url", "%q is no http or https address", u.Redacted())
	case u.User != nil:
		return nil, invalid("url", "has a user in it: use user and password_file")
	case cfg.BearerFile != "" && (cfg.User != "" || cfg.PasswordFile != ""):
		return nil, invalid("bearer_file", "is set beside user and password_file")
	case (cfg.User == "") != (cfg.PasswordFile == ""):
		return nil, invalid("password_file", "and user are needed together")
	case (cfg.CertFile == "") != (cfg.KeyFile == ""):
		return nil, invalid("key_file", "and cert_file are needed together")
	case cfg.SkipVerify && cfg.CAFile != "":
		return nil, invalid("skip_verify", "is set beside ca_file: nothing is checked then")
	case u.Scheme == "http" && (cfg.CAFile != "" || cfg.CertFile != "" || cfg.ServerName != "" || cfg.SkipVerify):
		return nil, invalid("url", "is http, but there are settings of TLS")
	case cfg.Timeout < 0:
		return nil, invalid("timeout", "is negative")
	case cfg.MaxBytes < 0:
		return nil, invalid("max_bytes", "is negative")
	}
	for field, name := range map[string]string{"bearer_file": cfg.BearerFile, "password_file": cfg.PasswordFile} {
		if name == "" {
			continue
		}
		if _, err := secret(name); err != nil {
			return nil, invalid(field, "%v", err)
		}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 1 << 20
	}
	t, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = t
	transport.MaxIdleConnsPerHost = 2
	transport.ResponseHeaderTimeout = cfg.Timeout
	return &Client{cfg: cfg, url: u, http: &http.Client{Transport: transport, CheckRedirect: sameHost}}, nil
}

// sameHost follows redirects that stay where the operator has pointed to.
func sameHost(req *http.Request, via []*http.Request) error {
	switch first := via[0].URL; {
	case len(via) >= 5:
		return errors.New("too many redirects")
	case req.URL.Host != first.Host || req.URL.Scheme != first.Scheme:
		return fmt.Errorf("it redirects to %s", req.URL.Host)
	}
	return nil
}

func (c *Config) tls() (*tls.Config, error) {
	t := &tls.Config{ServerName: c.ServerName, InsecureSkipVerify: c.SkipVerify, MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, invalid("ca_file", "%v", err)
		}
		if t.RootCAs = x509.NewCertPool(); !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, invalid("ca_file", "%s has no certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, invalid("cert_file", "%v", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

func secret(name string) (string, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return "", fmt.Errorf("%s is empty", name)
	}
	return s, nil
}

// URL is the address without secrets.
func (c *Client) URL() string { return c.url.Redacted() }

// Close closes connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Answer is what a server has said.
type Answer struct {
	Status int
	Type   string // of the content, without parameters
	Body   []byte
}

// Get asks for the URL itself, Post sends a form to a path below it.
func (c *Client) Get(ctx context.Context, accept string) (Answer, error) {
	return c.do(ctx, http.MethodGet, c.url, nil, accept)
}

func (c *Client) Post(ctx context.Context, path string, form url.Values) (Answer, error) {
	return c.do(ctx, http.MethodPost, c.url.JoinPath(path), form, "application/json")
}

// GetQuery asks with the form in the address, for servers that take no Post.
func (c *Client) GetQuery(ctx context.Context, path string, form url.Values) (Answer, error) {
	u := c.url.JoinPath(path)
	u.RawQuery = form.Encode()
	return c.do(ctx, http.MethodGet, u, nil, "application/json")
}

func (c *Client) do(ctx context.Context, method string, u *url.URL, form url.Values, accept string) (Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Timeout, fmt.Errorf("no answer in %v", c.cfg.Timeout))
	defer cancel()
	a, err := c.exchange(ctx, method, u, form, accept)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return a, fmt.Errorf("%s: %w", u.Redacted(), err)
	}
	return a, nil
}

func (c *Client) exchange(ctx context.Context, method string, u *url.URL, form url.Values, accept string) (Answer, error) {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return Answer{}, err
	}
	for k, v := range c.cfg.Headers {
		req.Header.Set(k, v)
	}
	req.Header.Set("Accept", accept)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	switch {
	case c.cfg.BearerFile != "":
		token, err := secret(c.cfg.BearerFile)
		if err != nil {
			return Answer{}, err
		}
		req.Header.Set("Authorization", "Bearer "+token)
	case c.cfg.User != "":
		password, err := secret(c.cfg.PasswordFile)
		if err != nil {
			return Answer{}, err
		}
		req.SetBasicAuth(c.cfg.User, password)
	}
	res, err := c.http.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // the address is said by the caller
		}
		return Answer{}, err
	}
	defer res.Body.Close()
	a := Answer{Status: res.StatusCode}
	a.Type, _, _ = strings.Cut(res.Header.Get("Content-Type"), ";")
	a.Type = strings.ToLower(strings.TrimSpace(a.Type))
	if a.Body, err = io.ReadAll(io.LimitReader(res.Body, c.cfg.MaxBytes+1)); err != nil {
		return a, err
	}
	if int64(len(a.Body)) > c.cfg.MaxBytes {
		return a, fmt.Errorf("the answer has more than %d bytes", c.cfg.MaxBytes)
	}
	return a, nil
}
