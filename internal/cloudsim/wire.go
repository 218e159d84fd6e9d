package cloudsim

// Paths of the API. The first three cost a token.
const (
	pathTasks    = "/tasks"          // POST: start
	pathTask     = "/tasks/"         // DELETE /tasks/{id}
	pathDescribe = "/tasks/describe" // POST
	pathBegin    = "/invocations/begin"
	pathEnd      = "/invocations/end"
)

const headerKey = "Idempotency-Key"

type startRequest struct {
	Command string `json:"command"`
}

type describeRequest struct {
	IDs []string `json:"ids"`
}

type describeReply struct {
	Tasks []Task `json:"tasks"`
}

type beginRequest struct {
	Worker     string   `json:"worker"`
	Lane       string   `json:"lane"`
	Invocation string   `json:"invocation"`
	Commands   []string `json:"commands"`
}

type endRequest struct {
	Invocation string `json:"invocation"`
}
