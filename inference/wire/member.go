package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Kinds of requests.
const (
	KindPlain  = "plain"
	KindRedis  = "redis"
	KindPubSub = "pubsub"
)

// Member is one member of a request set. Its fields are in the order in which a producer writes them.
type Member struct {
	Internal Internal `json:"internal"` // absent and null read as empty
	Kind     string   `json:"request_kind"`
	Data     *Data    `json:"data"`
}

// Internal is what the producer library and the dispatcher say to each other.
type Internal struct {
	RetryCount      int               `json:"retry_count,omitempty"`
	QueueID         string            `json:"queue_id,omitempty"`
	Token           string            `json:"request_token,omitempty"` // 32 hex digits; without one a request cannot be cancelled
	RequestQueue    string            `json:"request_queue_name,omitempty"`
	ResultQueue     string            `json:"result_queue_name,omitempty"`
	ResultTTL       int64             `json:"result_ttl_seconds,omitempty"`
	RoutingResolved bool              `json:"result_routing_resolved,omitempty"`
	CorrelationID   string            `json:"transport_correlation_id,omitempty"`
	EnqueueSeq      int64             `json:"enqueue_seq,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
}

// Data is the request as its user made it.
type Data struct {
	ID       string            `json:"id"`
	Created  int64             `json:"created"`  // unix seconds
	Deadline int64             `json:"deadline"` // unix seconds
	Payload  json.RawMessage   `json:"payload"`  // an object, as it was written; nil for null
	Metadata map[string]string `json:"metadata,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Endpoint string            `json:"endpoint,omitempty"`
	Model    string            `json:"model,omitempty"`
	// RequestQueue and ResultQueue are of KindRedis, PubSubID of KindPubSub. Results are not routed by them.
	RequestQueue string `json:"request_queue_name,omitempty"`
	ResultQueue  string `json:"result_queue_name,omitempty"`
	PubSubID     string `json:"pubsub_id,omitempty"`
}

// Parse reads a member. What it refuses has no meaning as a request; [Salvage] finds what can be read of it. The bytes are not kept.
func Parse(member []byte) (*Member, error) {
	if string(bytes.TrimSpace(member)) == "null" {
		return nil, errors.New("the member is null")
	}
	m := &Member{}
	if err := json.Unmarshal(member, m); err != nil {
		return nil, err
	}
	switch m.Kind {
	case KindPlain, KindRedis, KindPubSub:
	case "":
		return nil, errors.New("request_kind is missing")
	default:
		return nil, fmt.Errorf("request_kind %q is none of plain, redis and pubsub", m.Kind)
	}
	if m.Data == nil {
		return nil, errors.New("data is empty")
	}
	switch p := m.Data.Payload; {
	case len(p) == 0 || string(p) == "null":
		m.Data.Payload = nil
	case p[0] != '{':
		return nil, errors.New("data.payload is not an object")
	}
	if m.Data.Deadline <= 0 {
		return nil, fmt.Errorf("data.deadline is %d: a deadline is required", m.Data.Deadline)
	}
	return m, nil
}

// Bytes writes a member as a producer does.
func (m *Member) Bytes() ([]byte, error) { return json.Marshal(m) }
