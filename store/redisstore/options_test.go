package redisstore

import (
	"strings"
	"testing"
	"time"
)

func TestParseURL(t *testing.T) {
	for _, k := range []struct {
		url   string
		check func(o Options) bool
	}{
		{"redis://", func(o Options) bool { return len(o.Addrs) == 0 && o.TLS == nil }},
		{"redis://h", func(o Options) bool { return o.Addrs[0] == "h:6379" }},
		{"redis://u:p%40ss@h:1/3?namespace=n", func(o Options) bool {
			return o.Username == "u" && o.Password == "p@ss" && o.DB == 3 && o.Namespace == "n" && o.Addrs[0] == "h:1"
		}},
		{"redis://:p@h", func(o Options) bool { return o.Username == "" && o.Password == "p" }},
		{"redis://[::1]:7000", func(o Options) bool { return o.Addrs[0] == "[::1]:7000" }},
		{"rediss://h?tls_server_name=s", func(o Options) bool { return o.TLS != nil && o.TLS.ServerName == "s" }},
		{"redis://a:1,b:2?master=m&sentinel_user=su&sentinel_password=sp", func(o Options) bool {
			return o.Master == "m" && len(o.Addrs) == 2 && o.SentinelUsername == "su" && o.SentinelPassword == "sp" && !o.Cluster
		}},
		{"redis://a:1?addr=b:2&addr=c:3", func(o Options) bool { return o.Cluster && len(o.Addrs) == 3 }},
		{"redis://a:1?addr=b:2&master_set=m", func(o Options) bool { return o.Master == "m" && !o.Cluster && len(o.Addrs) == 2 }},
		{"redis://a:1?cluster=1", func(o Options) bool { return o.Cluster }},
		{"redis://a?timeout=3s&allow_eviction=1&password_file=/f", func(o Options) bool {
			return o.Timeout == 3*time.Second && o.AllowEviction && o.PasswordFile == "/f"
		}},
	} {
		o, err := ParseURL(k.url)
		if err != nil || !k.check(o) {
			t.Errorf("%s: %+v, %v", k.url, o, err)
		}
	}
	for url, want := range map[string]string{
		"http://h": "scheme", "redis://h/x": "database", "redis://h?nonsense=1": "nonsense", "redis://h?cluster=maybe": "cluster",
		"redis://h?timeout=-1s": "timeout", "redis://h?namespace=a{b}": "namespace", "redis://h?master=m&cluster=1": "cluster",
		"redis://h/2?cluster=1": "database", "redis://h?tls_ca=/none": "rediss", "rediss://h?tls_ca=/none": "/none",
		"redis://u:secret%zz@h": "percent",
	} {
		if _, err := ParseURL(url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want something about %s", url, err, want)
		}
	}
}
