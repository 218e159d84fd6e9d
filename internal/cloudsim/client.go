package cloudsim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// APIError is an answer of the cloud that is no success.
type APIError struct {
	Status     int           // HTTP status
	RetryAfter time.Duration // of a 429; 0 if it did not say
	Text       string
}

func (e *APIError) Error() string {
	return fmt.Sprintf("cloud: %d %s: %s", e.Status, http.StatusText(e.Status), e.Text)
}

// Throttled reports whether the call was over the rate.
func (e *APIError) Throttled() bool { return e.Status == http.StatusTooManyRequests }

// Client calls a cloud on behalf of one worker. It never repeats a call by itself. Its methods may be called concurrently.
type Client struct {
	url    string
	worker string
	http   *http.Client
	next   atomic.Uint64
}

// NewClient returns a client of the server at url; worker names its invocations and must be unique.
func NewClient(url, worker string) *Client {
	return &Client{url: url, worker: worker, http: &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 256, IdleConnTimeout: 30 * time.Second,
	}}}
}

// Close frees idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Start starts the task of key for command; the same key again finds the same task.
func (c *Client) Start(ctx context.Context, key, command string) (Task, error) {
	var t Task
	err := c.do(ctx, http.MethodPost, pathTasks, key, startRequest{Command: command}, &t)
	return t, err
}

// Describe tells the state of up to [MaxDescribe] ids, in order.
func (c *Client) Describe(ctx context.Context, ids []string) ([]Task, error) {
	var reply describeReply
	if err := c.do(ctx, http.MethodPost, pathDescribe, "", describeRequest{IDs: ids}, &reply); err != nil {
		return nil, err
	}
	if len(reply.Tasks) != len(ids) {
		return nil, fmt.Errorf("cloud: %d answers for %d ids", len(reply.Tasks), len(ids))
	}
	return reply.Tasks, nil
}

// Delete stops a task.
func (c *Client) Delete(ctx context.Context, id string) (Task, error) {
	var t Task
	err := c.do(ctx, http.MethodDelete, pathTask+id, "", nil, &t)
	return t, err
}

// Begin announces an invocation and returns the announcement of its end, which the caller makes before the invocation returns.
func (c *Client) Begin(ctx context.Context, lane string, commands []string) (end func() error, err error) {
	id := c.worker + "#" + strconv.FormatUint(c.next.Add(1), 10)
	req := beginRequest{Worker: c.worker, Lane: lane, Invocation: id, Commands: commands}
	err = c.do(ctx, http.MethodPost, pathBegin, "", req, nil)
	end = func() error {
		// The end must be told even if the invocation's own context is over.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return c.do(ctx, http.MethodPost, pathEnd, "", endRequest{Invocation: id}, nil)
	}
	if err != nil {
		return nil, errors.Join(err, end()) // the announcement may have arrived
	}
	return end, nil
}

// Post sends v as JSON to another route of the server.
func (c *Client) Post(ctx context.Context, path string, v any) error {
	return c.do(ctx, http.MethodPost, path, "", v, nil)
}

func (c *Client) do(ctx context.Context, method, path, key string, in, out any) (err error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return err
	}
	if key != "" {
		req.Header.Set(headerKey, key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() {
		_, _ = io.Copy(io.Discard, resp.Body) // lets the connection be used again; what matters was read
		err = errors.Join(err, resp.Body.Close())
	}()
	if resp.StatusCode >= 300 {
		text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		if err != nil {
			return err
		}
		e := &APIError{Status: resp.StatusCode, Text: strings.TrimSpace(string(text))}
		if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
			e.RetryAfter = time.Duration(n) * time.Second
		}
		return e
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}
