package wire

import (
	"encoding/json"
	"fmt"
)

// Codes of results that are no HTTP responses.
const (
	CodeDeadline    = "DEADLINE_EXCEEDED"
	CodeCancelled   = "CANCELLED"
	CodeGateDropped = "GATE_DROPPED"
	CodeGateError   = "GATE_ERROR"
	CodeInference   = "INFERENCE_ERROR"
	CodeInvalid     = "INVALID_REQUEST"
	CodeUnavailable = "PAYLOAD_UNAVAILABLE"
)

// Result is one record of a result list. Its fields are in the order in which they are written.
type Result struct {
	ID           string `json:"id"`
	StatusCode   int    `json:"status_code,omitempty"` // of the HTTP response; 0: none came, and ErrorCode says why
	Payload      string `json:"payload"`               // the body of the response as it came
	ErrorCode    string `json:"error_code,omitempty"`
	ErrorMessage string `json:"error_message,omitempty"`
	Token        string `json:"request_token,omitempty"` // of the request; readers of an older version skip it
}

// Response is the result of a request that was answered by HTTP.
func Response(id, token string, status int, body []byte) *Result {
	return &Result{ID: id, StatusCode: status, Payload: string(body), Token: token}
}

// Failure is the result of a request that was not. Its payload repeats the message for readers that look at nothing else.
func Failure(id, token, code, message string) *Result {
	return &Result{ID: id, Payload: errorPayload(message), ErrorCode: code, ErrorMessage: message, Token: token}
}

// Bytes writes the record. Bytes of the body that are no UTF-8 become U+FFFD.
func (r *Result) Bytes() []byte {
	b, err := json.Marshal(r)
	if err != nil { // a struct of strings and an int has no reason to fail
		panic(fmt.Sprintf("wire: %v", err))
	}
	return b
}

func errorPayload(message string) string {
	b, err := json.Marshal(struct {
		Error string `json:"error"`
	}{message})
	if err != nil {
		panic(fmt.Sprintf("wire: %v", err))
	}
	return string(b)
}
