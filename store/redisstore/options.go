package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/store"
)

// Options says where the store is. The zero value is redis://127.0.0.1:6379, namespace "twolane".
type Options struct {
	// Addrs are host:port of the server, of the sentinels if Master is set, or of some nodes of a cluster.
	Addrs []string
	// Namespace is the unit of atomicity: ids, unique keys and rates end there. Empty means "twolane".
	Namespace string
	// Master is the name of the master that sentinels watch.
	Master string
	// Cluster is set for Redis Cluster.
	Cluster bool
	// DB is the number of the database; a cluster has only 0.
	DB int
	// Username and Password of the server. Empty means none.
	Username, Password string
	// PasswordFile is read at each connect, so that a rotated secret is picked up. It wins over Password.
	PasswordFile string
	// SentinelUsername and SentinelPassword are for the sentinels.
	SentinelUsername, SentinelPassword string
	// TLS is used if not nil.
	TLS *tls.Config
	// AllowEviction opens a server that may evict keys when its memory is full. What it evicts is lost.
	AllowEviction bool
	// Timeout bounds one connect, and how long a silent connection is believed in. 0 means 5 s.
	Timeout time.Duration
}

// ParseURL reads options from a URL: redis:// or, with TLS, rediss://; user and password; one or more hosts parted by commas; the database as
// path. The query may have namespace, master (sentinel), cluster=1, password_file, sentinel_user, sentinel_password, tls_ca, tls_cert,
// tls_key, tls_server_name (files are PEM), allow_eviction=1, timeout; and, as other clients write them, addr for further hosts and master_set.
// Several hosts without a master are a cluster. An unknown name is an error. No error shows a secret.
func ParseURL(raw string) (Options, error) {
	var o Options
	bad := func(format string, a ...any) error {
		return fmt.Errorf("redis URL: "+format, a...)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return o, bad("cannot be parsed; passwords must be percent-encoded") // the error of net/url quotes the URL
	}
	switch u.Scheme {
	case "redis":
	case "rediss":
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return o, bad("scheme %q is not redis or rediss", u.Scheme)
	}
	o.Username = u.User.Username()
	o.Password, _ = u.User.Password()
	for h := range strings.SplitSeq(u.Host, ",") {
		if h == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), "6379")
		}
		o.Addrs = append(o.Addrs, h)
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if o.DB, err = strconv.Atoi(db); err != nil || o.DB < 0 {
			return o, bad("database %q is not a number", db)
		}
	}
	var ca, cert, key, name string
	for k, vs := range u.Query() {
		v := vs[len(vs)-1]
		switch k {
		case "namespace":
			o.Namespace = v
		case "master", "master_set":
			o.Master = v
		case "addr":
			o.Addrs = append(o.Addrs, vs...)
		case "password_file":
			o.PasswordFile = v
		case "sentinel_user":
			o.SentinelUsername = v
		case "sentinel_password":
			o.SentinelPassword = v
		case "tls_ca":
			ca = v
		case "tls_cert":
			cert = v
		case "tls_key":
			key = v
		case "tls_server_name":
			name = v
		case "cluster", "allow_eviction":
			b, err := strconv.ParseBool(v)
			if err != nil {
				return o, bad("%s=%q is not a boolean", k, v)
			}
			if k == "cluster" {
				o.Cluster = b
			} else {
				o.AllowEviction = b
			}
		case "timeout":
			if o.Timeout, err = time.ParseDuration(v); err != nil || o.Timeout <= 0 {
				return o, bad("timeout=%q is not a duration", v)
			}
		default:
			return o, bad("unknown parameter %q", k)
		}
	}
	if err := o.loadTLS(ca, cert, key, name); err != nil {
		return o, bad("%w", err)
	}
	o.Cluster = o.Cluster || len(o.Addrs) > 1 && o.Master == ""
	_, err = o.check()
	return o, err
}

// loadTLS reads certificates from files.
func (o *Options) loadTLS(ca, cert, key, name string) error {
	if ca == "" && cert == "" && key == "" && name == "" {
		return nil
	}
	if o.TLS == nil {
		return fmt.Errorf("certificates need the scheme rediss")
	}
	o.TLS.ServerName = name
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return err
		}
		o.TLS.RootCAs = x509.NewCertPool()
		if !o.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s holds no certificate", ca)
		}
	}
	if cert == "" && key == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	o.TLS.Certificates = []tls.Certificate{pair}
	return nil
}

// check fills in defaults and refuses what contradicts itself.
func (o Options) check() (Options, error) {
	if len(o.Addrs) == 0 {
		o.Addrs = []string{"127.0.0.1:6379"}
	}
	if o.Namespace == "" {
		o.Namespace = "twolane"
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if err := store.ValidName("namespace", o.Namespace); err != nil {
		return o, err
	}
	bad := func(detail string) (Options, error) {
		return o, &store.InvalidError{Field: "options", Detail: detail}
	}
	switch {
	case o.Cluster && o.Master != "":
		return bad("a cluster has no sentinels: give either master or cluster")
	case o.Cluster && o.DB != 0:
		return bad("a cluster has only database 0")
	case !o.Cluster && o.Master == "" && len(o.Addrs) > 1:
		return bad("several hosts need master (sentinels) or cluster=1")
	case o.Timeout < 0:
		return bad("timeout is negative")
	}
	return o, nil
}

// client is the configuration of the client library.
func (o *Options) client() rueidis.ClientOption {
	c := rueidis.ClientOption{
		InitAddress:       o.Addrs,
		SelectDB:          o.DB,
		TLSConfig:         o.TLS,
		Username:          o.Username,
		Password:          o.Password,
		DisableCache:      true,
		DisableRetry:      true, // our own callers know what they repeat
		ForceSingleClient: !o.Cluster && o.Master == "",
		ConnWriteTimeout:  o.Timeout,
		PipelineMultiplex: -1,
		BlockingPoolSize:  64,
		ClientName:        "twolane",
		ClientSetInfo:     rueidis.DisableClientSetInfo,
		Dialer:            net.Dialer{Timeout: o.Timeout, KeepAlive: o.Timeout / 2},
	}
	if o.Master != "" {
		c.Sentinel = rueidis.SentinelOption{
			MasterSet: o.Master, TLSConfig: o.TLS, Username: o.SentinelUsername, Password: o.SentinelPassword, Dialer: c.Dialer,
		}
	}
	if o.PasswordFile != "" {
		user, file := o.Username, o.PasswordFile
		c.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			b, err := os.ReadFile(file)
			if err != nil {
				return rueidis.AuthCredentials{}, err
			}
			return rueidis.AuthCredentials{Username: user, Password: strings.TrimSpace(string(b))}, nil
		}
	}
	return c
}
