package openstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/redisstore"
)

func openRedis(ctx context.Context, rawURL string) (store.Store, error) {
	opt, err := redisstore.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	st, err := redisstore.Open(ctx, opt)
	if err != nil {
		return nil, err // a nil *redisstore.Store would be no nil store.Store
	}
	return st, nil
}

// RedisClient opens a plain client of the servers that a redis URL names, for questions about the servers themselves. It repeats nothing. The
// caller closes it.
func RedisClient(rawURL string) (rueidis.Client, error) {
	c, err := RedisOptions(rawURL)
	if err != nil {
		return nil, err
	}
	return rueidis.NewClient(c)
}

// RedisOptions are those of a plain client of the servers that a redis URL names.
func RedisOptions(rawURL string) (rueidis.ClientOption, error) {
	opt, err := redisstore.ParseURL(rawURL)
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("%w: %w", ErrURL, err)
	}
	if opt.PasswordFile != "" {
		secret, err := os.ReadFile(opt.PasswordFile)
		if err != nil {
			return rueidis.ClientOption{}, err
		}
		opt.Password = strings.TrimSpace(string(secret))
	}
	c := rueidis.ClientOption{
		InitAddress: opt.Addrs, SelectDB: opt.DB, TLSConfig: opt.TLS, Username: opt.Username, Password: opt.Password,
		DisableCache: true, DisableRetry: true, ForceSingleClient: !opt.Cluster && opt.Master == "",
	}
	if len(c.InitAddress) == 0 {
		c.InitAddress = []string{"127.0.0.1:6379"}
	}
	if opt.Master != "" {
		c.Sentinel = rueidis.SentinelOption{MasterSet: opt.Master, TLSConfig: opt.TLS, Username: opt.SentinelUsername, Password: opt.SentinelPassword}
	}
	return c, nil
}

// WithNamespace returns a redis URL with the namespace, unless it names one already; then own is false.
func WithNamespace(rawURL, namespace string) (withURL string, own bool, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", false, fmt.Errorf("%w: it cannot be parsed; passwords must be percent-encoded", ErrURL) // net/url quotes the whole of it
	}
	q := u.Query()
	if q.Has("namespace") {
		return rawURL, false, nil
	}
	q.Set("namespace", namespace)
	u.RawQuery = q.Encode()
	return u.String(), true, nil
}

// DropNamespace removes every key of the namespace of a redis URL. Nobody may have it open.
func DropNamespace(ctx context.Context, rawURL string) error {
	opt, err := redisstore.ParseURL(rawURL)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrURL, err)
	}
	if opt.Namespace == "" {
		return errors.New("drop namespace: the URL names none")
	}
	client, err := RedisClient(rawURL)
	if err != nil {
		return err
	}
	defer client.Close()
	for _, node := range client.Nodes() {
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			e, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match("{"+opt.Namespace+"}:*").Count(1000).Build()).AsScanEntry()
			if err != nil {
				return fmt.Errorf("drop namespace %s: %w", opt.Namespace, err)
			}
			cursor = e.Cursor
			if len(e.Elements) == 0 {
				continue
			}
			// By the client, which knows the master; a node may be a replica. All keys share a slot.
			if err := client.Do(ctx, client.B().Unlink().Key(e.Elements...).Build()).Error(); err != nil {
				return fmt.Errorf("drop namespace %s: %w", opt.Namespace, err)
			}
		}
	}
	return nil
}
