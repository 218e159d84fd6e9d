package inference

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"github.com/twolane/twolane/store"

	"github.com/twolane/twolane/inference/config"
)

// Names that the store knows.
const (
	topic    = "results"
	deadName = "dead" // queue and type of members that are no requests
)

// valid turns any text into a name, the same always: as it is if it may be one, else by its hash.
func valid(prefix, s string) string {
	if name := prefix + s; store.ValidName("name", name) == nil {
		return name
	}
	sum := sha256.Sum256([]byte(s))
	return prefix + "x-" + hex.EncodeToString(sum[:16])
}

// queueName is the engine's queue of a lane of a pool. lane -1 is that of a pool without lanes.
func queueName(pool string, lane int) string {
	if lane < 0 {
		return valid("pool:", pool)
	}
	return valid("pool:", pool+":"+config.LaneNames[lane])
}

// typeName is the engine's type of the requests of one queue: what one gateway says about its load holds for one of them.
func typeName(queueID string) string { return valid("queue:", queueID) }

var tokenForm = regexp.MustCompile("^[0-9a-f]{32}$")

// commandID is the id of the command of a request: its own id and token where both are plain, so that people find it, else a hash of what makes it
// distinct. A request without a token is told from others by the bytes of its member, and by a generation, if the same was run before.
func commandID(id, token string, member []byte, generation int) string {
	if tokenForm.MatchString(token) {
		if name := id + ":" + token; store.ValidName("id", name) == nil {
			return name
		}
	}
	h := sha256.New()
	for _, part := range [...]string{id, token} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	if token == "" {
		h.Write(member)
		h.Write([]byte{0, byte(generation >> 8), byte(generation)})
	}
	return "x-" + hex.EncodeToString(h.Sum(nil)[:20])
}

// CommandID is the id in the store of the request with that id and token; without a token it cannot be told.
func CommandID(id, token string) string { return commandID(id, token, nil, 0) }
