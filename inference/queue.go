package inference

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/twolane/twolane/inference/config"
)

// queue is a set of requests with what was worked out from its configuration.
type queue struct {
	config.Queue
	base       *url.URL
	quotas     []quota // that its requests count for
	classifies bool    // one of them tells reserved from overflow
}

// newQueue works out what the configuration of a queue means. It was validated.
func (p *Processor) newQueue(c config.Queue) (*queue, error) {
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("queues.%s.igw_base_url: %w", c.ID, err)
	}
	q := &queue{Queue: c, base: base}
	if q.quotas, err = p.quotasOf(c); err != nil {
		return nil, err
	}
	for _, x := range q.quotas {
		q.classifies = q.classifies || x.classify && !x.atIntake()
	}
	return q, nil
}

// target is the URL of a request. Scheme, host and the beginning of the path are the operator's alone: an endpoint only adds to them.
func (q *queue) target(endpoint string) (string, error) {
	if endpoint == "" {
		endpoint = q.Path
	}
	way, query, _ := strings.Cut(endpoint, "?")
	if strings.ContainsFunc(endpoint, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("endpoint %q has control characters", endpoint)
	}
	u := q.base.JoinPath(way)
	if within := path.Clean("/" + q.base.Path); within != "/" && u.Path != within && !strings.HasPrefix(path.Clean("/"+u.Path), within+"/") {
		return "", fmt.Errorf("endpoint %q leaves the path of the gateway", endpoint)
	}
	if query != "" {
		if u.RawQuery != "" {
			query = u.RawQuery + "&" + query
		}
		u.RawQuery = query
	}
	return u.String(), nil
}
