package redistest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// The administrator that servers with access control get beside the users of the test.
const (
	adminUser     = "redistest"
	adminPassword = "redistest-admin"
)

// Client opens a plain single-server connection with all rights: no client-side cache, no retries, no redirects. The
// caller closes it.
func (s *Server) Client() (rueidis.Client, error) {
	opt := rueidis.ClientOption{
		InitAddress:       []string{s.Addr()},
		ForceSingleClient: true,
		AlwaysRESP2:       true, // its plain strings have no format prefix
		DisableCache:      true,
		DisableRetry:      true,
		BlockingPoolSize:  4,
		RingScaleEachConn: 4,
		ClientSetInfo:     rueidis.DisableClientSetInfo,
	}
	opt.Dialer.Timeout = 2 * time.Second
	if s.admin {
		opt.Username, opt.Password = adminUser, adminPassword
	}
	if s.tls != nil {
		opt.TLSConfig = s.tls.Client()
	}
	return rueidis.NewClient(opt)
}

// Do runs one command over a connection of its own, with all rights. An error reply is an error.
func (s *Server) Do(ctx context.Context, args ...string) (rueidis.RedisMessage, error) {
	c, err := s.Client()
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	defer c.Close()
	msg, err := c.Do(ctx, c.B().Arbitrary(args...).Build()).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		return msg, fmt.Errorf("%s: %w", args[0], err)
	}
	return msg, nil
}

// Info is the reply to INFO sections, by field.
func (s *Server) Info(ctx context.Context, sections ...string) (map[string]string, error) {
	msg, err := s.Do(ctx, append([]string{"INFO"}, sections...)...)
	if err != nil {
		return nil, err
	}
	text, err := msg.ToString()
	if err != nil {
		return nil, err
	}
	return fields(text), nil
}

// fields splits the name:value lines of INFO and CLUSTER INFO.
func fields(text string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[k] = v
		}
	}
	return m
}

// until calls check until it answers nil, and gives its last error when ctx ends first.
func until(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("redistest: waiting for %s: %w (%w)", what, err, ctx.Err())
		case <-time.After(4 * probeEvery):
		}
	}
}
