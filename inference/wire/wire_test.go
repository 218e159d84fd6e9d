package wire

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:embed testdata/members.jsonl
var members []byte

//go:embed testdata/results.jsonl
var results []byte

func lines(b []byte) [][]byte { return bytes.Split(bytes.TrimSpace(b), []byte("\n")) }

func TestMembersRoundTrip(t *testing.T) {
	for _, raw := range lines(members) {
		m, err := Parse(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		got, err := m.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(raw), string(got)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestMemberFields(t *testing.T) {
	all := lines(members)
	m, err := Parse(all[0])
	if err != nil {
		t.Fatal(err)
	}
	want := &Member{
		Internal: Internal{Token: "ea480a0fa56c40f2309a1e91c74d6031", RequestQueue: "q-a", ResultQueue: "res-a"},
		Kind:     KindPlain,
		Data: &Data{ID: "req-1", Created: 1795968945, Deadline: 1795972545,
			Payload: json.RawMessage(`{"max_tokens":10,"model":"m","prompt":"a\u003cb \u0026 c\u003ed \u2028 é","seed":9007199254740993}`)},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	if m, err = Parse(all[2]); err != nil || m.Data.Payload != nil || m.Data.PubSubID != "ps-9" || m.Internal.CorrelationID != "ps-9" {
		t.Errorf("%+v %v", m, err)
	}
	if m, err = Parse(all[3]); err != nil || m.Internal.RetryCount != 1 || m.Internal.QueueID != "team-a" || m.Internal.Labels["tier"] != "batch" {
		t.Errorf("%+v %v", m, err)
	}
}

// What their reader takes, ours takes.
func TestParseIsLenient(t *testing.T) {
	for _, raw := range []string{
		`{"request_kind":"plain","data":{"id":"a","deadline":5,"payload":{}}}`,
		`{"internal":null,"request_kind":"plain","data":{"id":"a","deadline":5,"payload":{}}}`,
		`{"Internal":{"Request_Token":""},"REQUEST_KIND":"plain","Data":{"ID":"a","Deadline":5,"PayLoad":{}}}`,
		`{"v":2,"internal":{"payload_ref":"x"},"request_kind":"redis","data":{"id":"a","deadline":5,"payload":null,"more":[1,{"x":2}]}}`,
		`{"request_kind":"pubsub","data":{"id":"b","id":"a","deadline":5}}`,
		" {\n\"request_kind\": \"plain\", \"data\": {\"id\": \"a\", \"deadline\": 5, \"payload\": {\"n\" : 1}}} ",
	} {
		m, err := Parse([]byte(raw))
		if err != nil || m.Data.ID != "a" || m.Data.Deadline != 5 {
			t.Errorf("%s: %+v %v", raw, m, err)
		}
	}
}

// The payload is kept byte for byte.
func TestFault36PayloadIsKept(t *testing.T) {
	for _, payload := range []string{
		`{"z":1,"a":9007199254740993,"b":1.0,"c":1e400,"d":"<>&","e":"\u003c","f":[],"f":{} }`,
		`{ "big" : 123456789012345678901234567890 , "x": "` + "\u2028" + `" }`,
	} {
		m, err := Parse([]byte(`{"request_kind":"plain","data":{"id":"a","deadline":5,"payload":` + payload + `}}`))
		if err != nil || string(m.Data.Payload) != payload {
			t.Errorf("%s came back as %s, %v", payload, m.Data.Payload, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for raw, want := range map[string]Salvaged{
		``:                                     {},
		`null`:                                 {},
		`[]`:                                   {},
		`{}`:                                   {},
		`{"request_kind":"plain"}`:             {},
		`{"request_kind":"plain","data":null}`: {},
		`{"request_kind":"plain","data":{"id":"a"}}`:                                                              {ID: "a"},
		`{"request_kind":"plain","data":{"id":"a","deadline":-1}}`:                                                {ID: "a"},
		`{"request_kind":"plain","data":{"id":"a","deadline":1.5}}`:                                               {ID: "a"},
		`{"request_kind":"plain","data":{"id":"a","deadline":1e9}}`:                                               {ID: "a"},
		`{"request_kind":"plain","data":{"id":"a","deadline":"1"}}`:                                               {ID: "a"},
		`{"request_kind":"plain","data":{"id":"a","deadline":1,"payload":[]}}`:                                    {ID: "a"},
		`{"request_kind":"plain","data":{"id":"a","deadline":1,"payload":"x"}}`:                                   {ID: "a"},
		`{"request_kind":"kafka","data":{"id":"a","deadline":1}}`:                                                 {ID: "a"},
		`{"internal":{"request_token":"t","result_queue_name":"r"},"data":{"id":"a","deadline":1}}`:               {ID: "a", Token: "t", ResultQueue: "r"},
		`{"data":{"x":[[{"id":1}]],"payload":{"id":"no"},"ID":"a","deadline":1.5},"internal":{"labels":{}}}`:      {ID: "a"},
		`{"internal":{"request_token":"t"},"request_kind":"plain","data":{"id":"a","deadline":12,"payload":{"p":`: {ID: "a", Token: "t"},
		`{"internal":[{"request_token":"no"}],"request_kind":"plain","data":{"id":7,"deadline":12}}`:              {},
		`{"data":[1,2],"internal":{"request_token":{"x":1}}}`:                                                     {},
		"\x00\xff": {},
	} {
		if m, err := Parse([]byte(raw)); err == nil {
			t.Errorf("%s was taken: %+v", raw, m)
		}
		if got := Salvage([]byte(raw)); got != want {
			t.Errorf("of %s %+v was read, want %+v", raw, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, raw := range lines(members) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		Salvage(raw)
		m, err := Parse(raw)
		if err != nil {
			return
		}
		if !json.Valid(raw) {
			t.Error("no JSON was taken")
		}
		if p := m.Data.Payload; p != nil && !bytes.Contains(raw, p) {
			t.Errorf("the payload %s is not in %s", p, raw)
		}
		if s := Salvage(raw); m.Data.ID != "" && s.ID == "" && !strings.Contains(strings.ToLower(string(raw)), `\u`) && bytes.Count(bytes.ToLower(raw), []byte(`"id"`)) == 1 {
			t.Errorf("the id %q was parsed but not salvaged", m.Data.ID)
		}
	})
}

func TestResults(t *testing.T) {
	deadline := Failure("req-1", "", CodeDeadline, "deadline exceeded")
	refused := Failure("r3", "", CodeInference, `Failed to send request to inference: UNKNOWN: failed to send request (caused by: Post "http://127.0.0.1:1/v1/completions": dial tcp 127.0.0.1:1: connect: connection refused)`)
	made := []*Result{
		Response("r2", "", 200, []byte(`{"ok": true, "code": 200}`)),
		Response("req-1", "", 400, []byte(`{"error":{"message":"bad"}}`)),
		deadline,
		Failure("req-1", "", CodeCancelled, "cancelled"),
		Failure("req-1", "", CodeGateDropped, "Pool gating dropped request"),
		refused,
		Response("req-1", "ea480a0fa56c40f2309a1e91c74d6031", 200, []byte("<b> & \u2028 é \xff 9007199254740993")),
	}
	want := lines(results)
	if len(want) != len(made) {
		t.Fatalf("%d fixtures for %d results", len(want), len(made))
	}
	for i, r := range made {
		if diff := cmp.Diff(string(want[i]), string(r.Bytes())); diff != "" {
			t.Error(diff)
		}
		var back Result
		if err := json.Unmarshal(r.Bytes(), &back); err != nil {
			t.Error(err)
		}
		if i < 6 && back != *r {
			t.Errorf("%+v came back as %+v", *r, back)
		}
	}
}

func TestClaims(t *testing.T) {
	if k := Claims("q", false); k != (ClaimKeys{"q:claimed", "q:claim-owners", "q:claims-idx"}) {
		t.Errorf("%+v", k)
	}
	if k := Claims("q", true); k != (ClaimKeys{"{q}:claimed", "{q}:claim-owners", "{q}:claims-idx"}) {
		t.Errorf("%+v", k)
	}
	if PayloadKey("a", "b") != "request-payload:a:b" || CancelKey("a") != "request-cancel:a" || ActiveKey("a") != "request-active:a" {
		t.Error("names of keys have changed")
	}
}
