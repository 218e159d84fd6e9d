package redisstore

// keys spells every key of a namespace. All of them begin with its hash tag, so that a cluster keeps them in one slot. Names within
// a key are parted by |, which no name contains. The scripts build the same keys; a test compares both with keyKinds.
type keys struct {
	prefix string // "{namespace}:"
}

func newKeys(namespace string) keys { return keys{prefix: "{" + namespace + "}:"} }

func (k keys) meta() string    { return k.prefix + "meta" } // hash: schema, clocks, counters; always exists
func (k keys) none() string    { return k.prefix + "none" } // never exists
func (k keys) channel() string { return k.prefix + "w" }    // wake-ups

// keyKinds are the kinds of keys, what they hold and their type. Kinds that end in | are followed by names.
var keyKinds = []struct{ kind, typ, holds string }{
	{"meta", "hash", "rd, wr schema; last, run, lease clocks; v visibility in ns; cv version of the configuration; lim the limits, packed, if there are some or something is left of them; fst when to look at keys under which room stands, fsw and fsc when and where the sweep of keys goes on, fcv how far a new test of all filed lines has come; seq, tok, oseq, fseq counters; clk a test's clock"},
	{"cfg", "hash", "queue -> packed configuration; ~queue|group -> weight; =limit|value -> max of its own; empty: all of it as JSON"},
	{"c|", "string", "id: the record"},
	{"p|", "string", "id: params over 1 KiB"},
	{"s|", "string", "id: state that is not in the record"},
	{"e|", "string", "id: error that is not in the record"},
	{"r|", "string", "id: result that is not in the record"},
	{"l|", "zset", "line: ids by score; a line is the base of its definition, the lane (i, k) and the class (0 to 5; 6 is a suspect that holds a slot)"},
	{"o|", "zset", "queue|lane and class|type: open lines by the score of their heads; those that wait for limits stand below 0 as far"},
	{"kn", "zset", "keys of open lines of polls by when the first of them is due"},
	{"ld", "hash", "base -> definition of a line"},
	{"lr", "hash", "base -> records that stand or stood in the line"},
	{"sr", "zset", "scheduled ids by due time (run clock)"},
	{"sn", "zset", "scheduled ids by not_before (server time)"},
	{"x", "zset", "ids at rest by the server time at which time alone ends them"},
	{"L", "zset", "leases: ids by expiry (lease clock)"},
	{"T", "hash", "leases: id -> name, owner, leased at"},
	{"xl", "zset", "leased ids by deadline"},
	{"cx", "set", "leased ids that were asked to cancel"},
	{"od", "set", "leased ids whose handler is overdue"},
	{"k|", "string", "worker: nonce and grants of its last claim; has a TTL"},
	{"W", "zset", "workers by the end of their heartbeat (lease clock)"},
	{"wr", "hash", "worker -> registration"},
	{"u", "hash", "unique key -> id of the live command that holds it"},
	{"g", "hash", "group -> live commands"},
	{"n|", "hash", "queue: numbers: i, k + type in line by lane, I, K + type leased, p PENDING without a lease, s scheduled, f finished"},
	{"qs", "set", "queues that have numbers"},
	{"f|", "zset", "queue|code: finished ids by end; s SUCCEEDED, c CANCELLED, a digit FAILED by reason"},
	{"z", "zset", "finished ids by the time of their purge"},
	{"y|", "list", "server time in ms: ids of tombstones that go then"},
	{"yz", "zset", "those times"},
	{"over", "set", "queues that may have more finished records than they keep"},
	{"ob|", "zset", "topic: numbers of visible outbox entries"},
	{"oh|", "zset", "topic: numbers of hidden outbox entries by the end of their hiding"},
	{"oi|", "hash", "topic: number -> id, and until when it was hidden last"},
	{"topics", "set", "topics with entries"},
	{"rt", "hash", "queue|lane -> token bucket"},
	{"th", "hash", "queue|lane|type -> throttled rate"},
	{"m|", "zset", "limit: value|id of each member; one of cost c is c of them, from the second on with |2, |3 and so on"},
	{"lf|", "hash", "limit: value -> lines filed under it: how many, and behind 1, if it is known, which"},
	{"lo", "set", "limits that are not configured any more and may have members or lines"},
	{"lb", "hash", "limit|value -> token bucket"},
	{"fl|", "zset", "limit|value: lines filed under it by number of filing; those that never fit are 2^50 further on"},
	{"fv|", "zset", "limit: values under which lines are filed, | behind each, so that their order is that of members"},
	{"fd", "hash", "line -> under which limit|value it is filed, and how"},
	{"ft", "hash", "line -> run clock since when it is filed"},
	{"fr", "zset", "filed lines that have a re-test of their own, by when it is (run clock)"},
	{"fs", "hash", "limit|value -> run clock since when room stands for the oldest line; a second number is how far a look at its lines has come"},
	{"fp", "hash", "line -> how often it let room stand since it was last granted"},
	{"fn", "hash", "queue|lane -> lines filed"},
	{"vq", "set", "queues with fair turns"},
	{"vl|", "zset", "queue|lane and letter|type|group: open lines of a fair queue that have something now, by the score of their heads"},
	{"vg|", "zset", "queue|lane and letter|type: groups that have such lines, by when their next turn starts, or earlier"},
	{"vd|", "zset", "queue|lane and letter|type: open lines of polls of a fair queue that were not due yet"},
	{"vs|", "zset", "queue|lane: groups by the start of their next turn, if it is ahead of the virtual time"},
	{"vt", "hash", "queue|lane -> virtual time"},
	{"vb", "hash", "queue|lane and letter|type -> how far the three kinds of sets are made anew, or taken away"},
	{"aw", "zset", "ids whose end somebody awaits, by when that lapses"},
	{"ag", "zset", "groups whose end somebody awaits, by when that lapses"},
	{"lost", "zset", "ids set aside because their records cannot be read, by time"},
	{"w", "channel", "wake-ups"},
}
