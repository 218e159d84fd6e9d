// Package inference is an asynchronous processor of inference requests that takes over an llm-d-async deployment as it stands: the same producers, the same
// Redis keys and JSON (package wire), the same flags and files (package config).
//
// It is an adapter on the engine, not a second one:
//
//	request set --intake--> command in the store --claim--> HTTP --settle--> outbox --deliver--> result list
//
// A request is taken from its set only after the store has it; the id of its command is made of the request's id and token, so that taking it twice is
// taking it once. Deadlines, retries, leases and fail-over are the engine's, quotas are limits in the store, and every end of a command, however it
// ends, leaves an outbox entry that becomes a record of a result list. On one Redis that is no cluster the push of the record and the removal
// of the entry are one step: there is exactly one record for a request token. Elsewhere there is at least one.
package inference
