package wire

// Names of keys and sets.
const (
	CancelPrefix  = "request-cancel:"
	ActivePrefix  = "request-active:"
	PayloadPrefix = "request-payload:"

	DefaultRequestQueue = "request-sortedset"
	DefaultRetryQueue   = "retry-sortedset"
	DefaultResultQueue  = "result-list"
)

// CancelKey holds the token of the request with that id that is to be cancelled.
func CancelKey(id string) string { return CancelPrefix + id }

// ActiveKey holds the token of the request with that id that was submitted last.
func ActiveKey(id string) string { return ActivePrefix + id }

// PayloadKey holds the payload of a request whose member has none.
func PayloadKey(id, token string) string { return PayloadPrefix + id + ":" + token }

// ClaimKeys are the keys in which newer dispatchers keep what they have taken from a request set.
type ClaimKeys struct {
	Claimed string // hash: claim -> member
	Owners  string // hash: claim -> dispatcher
	Expiry  string // set: claim by the unix second at which it lapses
}

// Claims names the keys of claims on a request set. On a cluster they carry the set's name as a hash tag.
func Claims(queue string, cluster bool) ClaimKeys {
	if cluster {
		queue = "{" + queue + "}"
	}
	return ClaimKeys{Claimed: queue + ":claimed", Owners: queue + ":claim-owners", Expiry: queue + ":claims-idx"}
}
