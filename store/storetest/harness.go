package storetest

import (
	"testing"

	"github.com/twolane/twolane/store"
)

// Harness opens the store under test. The suite closes every store that it opened; what else has to be cleaned up (files, servers)
// the functions register with t.Cleanup. All functions are called concurrently by parallel cases.
type Harness struct {
	// Open opens a store on a fresh, empty namespace. It must implement [store.Clocker].
	Open func(t *testing.T) store.Store

	// Second opens one more handle on the namespace of s, as another process would. Nil if the store cannot be shared.
	Second func(t *testing.T, s store.Store) store.Store

	// Reopen closes s and opens its namespace again, as a restarted process would. Nil if nothing outlives Close.
	Reopen func(t *testing.T, s store.Store) store.Store

	// Damage destroys part of what is stored about the command id, behind the back of s. It reports false if the store has no such part.
	// Nil if the store cannot be damaged from outside.
	Damage func(t *testing.T, s store.Store, id string, part Part) bool
}

// Part is what [Harness.Damage] destroys.
type Part uint8

const (
	// PartRecord: the record can no longer be read.
	PartRecord Part = iota + 1
	// PartMissing: the record is gone, what points to it stands.
	PartMissing
	// PartLease: the entry of its lease in the index by expiry is gone, the record says that it is leased.
	PartLease
)

func (p Part) String() string { return [...]string{"", "record", "missing", "lease"}[min(int(p), 3)] }

// kase is one case of the suite.
type kase struct {
	name string
	rule string // printed when the case fails
	run  func(f *fixture)
}

// Run checks every rule of the suite on the store that h opens.
func Run(t *testing.T, h Harness) {
	for _, noun := range nouns {
		t.Run(noun.name, func(t *testing.T) {
			t.Parallel()
			for _, k := range noun.cases {
				t.Run(k.name, func(t *testing.T) {
					t.Parallel()
					k.run(newFixture(t, h, k.rule))
				})
			}
		})
	}
}

type noun struct {
	name  string
	cases []kase
}

var nouns = []noun{
	{"submit", submitCases}, {"names", namesCases}, {"bytes", bytesCases}, {"claim", claimCases}, {"lanes", lanesCases},
	{"renew", renewCases}, {"settle", settleCases}, {"retry", retryCases}, {"processing", processingCases}, {"cancel", cancelCases},
	{"deadline", deadlineCases}, {"loss", lossCases}, {"clock", clockCases},
	{"rate", rateCases}, {"throttle", throttleCases}, {"pause", pauseCases}, {"batch", batchCases},
	{"unique", uniqueCases}, {"retention", retentionCases}, {"outbox", outboxCases}, {"follow_ups", followUpCases},
	{"act", actCases}, {"list", listCases}, {"stats", statsCases},
	{"watch", watchCases}, {"config", configCases}, {"concurrency", concurrencyCases}, {"idempotency", idempotencyCases},
	{"bounds", boundsCases}, {"damage", damageCases}, {"durability", durabilityCases},
	{"limit", limitCases}, {"limit_exit", exitCases()}, {"limit_race", raceCases()}, {"limit_line", limitLineCases}, {"limit_change", limitChangeCases},
	{"limit_rate", limitRateCases}, {"limit_fault", limitFaultCases}, {"limit_field", limitFieldCases}, {"limit_kill", limitKillCases}, {"limit_claim", limitClaimCases}, {"fair", fairCases},
}
