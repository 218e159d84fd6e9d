package inference

import (
	"maps"
	"strconv"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/inference/config"
	"github.com/twolane/twolane/inference/wire"
)

// Names of metadata of a command: what is needed to deliver its result, and for people.
const (
	metaQueue   = "queue"   // id of the queue in the configuration
	metaSource  = "source"  // name of the set that it came from
	metaRequest = "request" // id of the request
	metaToken   = "token"
	metaRoute   = "route"   // list of its result; none: nobody can be answered
	metaTTL     = "ttl"     // seconds that the list lives
	metaPayload = "payload" // key of a payload that did not come with the member
	metaBlob    = "blob"    // key of the member, which is too large for the store
	metaTier    = "tier"
	metaClass   = "class"
	metaSession = "session" // in which it was taken, see session
	metaWhy     = "why"     // of a dead letter
)

// Sizes from which bytes are kept in keys of the producers' Redis, and not in the store.
const (
	maxMember = 200 << 10
	maxRecord = 256 << 10
	maxRoute  = 512 // bytes of ids and names of lists that metadata can carry
)

// latest is the last deadline that the store takes.
var latest = time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC)

// deadline is the end of a request.
func deadline(m *wire.Member) time.Time {
	if m.Data.Deadline > latest.Unix() {
		return latest
	}
	return time.Unix(m.Data.Deadline, 0).UTC()
}

// route is the list that a result goes to.
func (q *queue) route(m *wire.Internal, otherwise string) string {
	switch {
	case m.RoutingResolved && m.ResultQueue != "":
		return m.ResultQueue
	case q.ResultQueue != "":
		return q.ResultQueue
	case m.ResultQueue != "":
		return m.ResultQueue
	}
	return otherwise
}

// taken is a member on its way into the store.
type taken struct {
	sub   twolane.Submission
	blob  string // key to be set to the member first
	until time.Time
}

// ticket makes the command of a member that came from a set of queue q. class is what quotas say of it.
func (p *Processor) ticket(q *queue, source string, member []byte, class string, generation int) taken {
	m, err := wire.Parse(member)
	if err != nil {
		return p.deadLetter(q, source, member, err.Error())
	}
	if len(m.Data.ID) > maxRoute || len(m.Internal.Token) > maxRoute {
		return p.deadLetter(q, source, member, "data.id or internal.request_token has more than "+strconv.Itoa(maxRoute)+" bytes")
	}
	meta := p.meta(q, source, m.Data.ID, m.Internal.Token, q.route(&m.Internal, p.cfg.Results.Queue))
	if len(meta[metaRoute]) > maxRoute {
		return p.deadLetter(q, source, member, "internal.result_queue_name has more than "+strconv.Itoa(maxRoute)+" bytes")
	}
	if ttl := max(q.ResultTTL, 0); ttl > 0 {
		meta[metaTTL] = strconv.FormatInt(ttl, 10)
	} else if m.Internal.ResultTTL > 0 {
		meta[metaTTL] = strconv.FormatInt(m.Internal.ResultTTL, 10)
	}
	if s := p.session.current(); s != "" && m.Internal.Token != "" {
		meta[metaSession] = s
	}
	if m.Data.Payload == nil && m.Internal.Token != "" {
		meta[metaPayload] = wire.PayloadKey(m.Data.ID, m.Internal.Token)
	}
	labels := maps.Clone(q.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if class != "" {
		labels["classification"] = class
	}
	maps.Copy(labels, m.Internal.Labels)
	t := taken{until: deadline(m), sub: twolane.Submission{
		ID: commandID(m.Data.ID, m.Internal.Token, member, generation), Type: typeName(q.ID), Params: member, Deadline: deadline(m), Metadata: meta, Notify: topic,
	}}
	p.place(&t.sub, q, labels)
	p.quotaKeys(&t.sub, q, m.Data.Metadata)
	t.large(member)
	return t
}

// deadLetter makes the command of a member that is no request. It is answered where an id can be read.
func (p *Processor) deadLetter(q *queue, source string, member []byte, why string) taken {
	s := wire.Salvage(member)
	m := wire.Internal{ResultQueue: s.ResultQueue}
	route := ""
	if s.ID != "" && len(s.ID) <= maxRoute {
		if route = q.route(&m, p.cfg.Results.Queue); len(route) > maxRoute {
			route = ""
		}
	}
	if len(s.Token) > maxRoute {
		s.Token = ""
	}
	meta := p.meta(q, source, cut(s.ID, maxRoute), s.Token, route)
	meta[metaWhy] = cut(why, 500)
	t := taken{until: time.Now().Add(p.cfg.Store.KeepDead), sub: twolane.Submission{
		ID: commandID(deadName, "", member, 0), Type: deadName, Queue: deadName, Params: member, Metadata: meta, Notify: topic,
	}}
	t.large(member)
	return t
}

func cut(s string, n int) string { return s[:min(len(s), n)] }

func (p *Processor) meta(q *queue, source, id, token, route string) map[string]string {
	meta := map[string]string{metaQueue: q.ID, metaSource: cut(source, maxRoute)}
	for name, v := range map[string]string{metaRequest: id, metaToken: token, metaRoute: route} {
		if v != "" {
			meta[name] = v
		}
	}
	return meta
}

// large leaves a member that is too large for the store in a key of its own.
func (t *taken) large(member []byte) {
	if len(member) <= maxMember {
		return
	}
	t.blob = blobKey(t.sub.ID)
	t.sub.Params = []byte(nil)
	t.sub.Metadata[metaBlob] = t.blob
}

func blobKey(id string) string   { return "twolane-inference:member:" + id }
func recordKey(id string) string { return "twolane-inference:record:" + id }

// place says where a request stands in line.
func (p *Processor) place(s *twolane.Submission, q *queue, labels map[string]string) {
	d := &p.cfg.Dispatch
	tier, class := labels[d.TierLabel], labels["classification"]
	if tier != "" {
		s.Metadata[metaTier] = cut(tier, 64)
	}
	if d.Policy != config.TierPriority {
		s.Queue = queueName(q.Pool, -1)
		if d.Fair {
			s.Group = valid("queue:", q.ID)
		}
		return
	}
	if class != "" {
		s.Metadata[metaClass] = cut(class, 64)
	}
	s.Queue, s.Group = queueName(q.Pool, laneOf(q.classifies, tier, class)), valid("queue:", q.ID)
}

// Classes of requests by their tenant's quota.
const (
	reserved = "reserved"
	overflow = "overflow"
)

// laneOf is the lane of a tier and class. A request whose class is not known yet, because a limit tells it at the claim, begins as reserved; an unknown
// tier is batch, and no class is overflow.
func laneOf(classifies bool, tier, class string) int {
	lane := 2
	switch tier {
	case "interactive":
		lane = 0
	case "async":
		lane = 1
	}
	if class == reserved || class == "" && classifies {
		return lane
	}
	return lane + 3
}
