package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/rueidis"

	"github.com/twolane/twolane/internal/redistest"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// packRecord packs any record as the scripts do. It is written from the description of the layout, for these tests only.
func packRecord(c *store.Command) string {
	flags := uint32(flagRun)
	place := byte(c.Place)
	starts, first, second := c.Starts, c.Eligible, c.Due
	if c.Place == store.Leased {
		place, starts = byte(store.InLine), starts-1
	}
	if c.Status.Terminal() {
		code, _ := reasonCode(c.Reason)
		place, first, second = 8+byte(c.Was)+16*code, c.Ended, c.PurgeAt
	}
	var b []byte
	b = put48(put48(b, uint64(first)), uint64(second))
	for _, n := range []int{starts, c.Polls, c.Failures} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	b = append(binary.LittleEndian.AppendUint16(b, uint16(c.Losses)), byte(c.Decodes))
	if rest := packHolds(c, true); rest != "" {
		flags |= flagHolds
		b = append(binary.LittleEndian.AppendUint16(b, uint16(len(rest))), rest...)
	}
	if c.Settled != (store.LeaseName{}) {
		flags |= flagSettled
		b = append(append(b, byte(len(c.Settled.String()))), c.Settled.String()...)
	}
	if c.NotBefore != 0 || c.StartBy != 0 || c.Deadline != 0 {
		flags |= flagTimes
		b = put48(put48(put48(b, uint64(c.NotBefore)), uint64(c.StartBy)), uint64(c.Deadline))
	}
	if c.MaxFailures != 0 || c.Retention != 0 {
		flags |= flagOpts
		b = binary.LittleEndian.AppendUint32(b, uint32(c.MaxFailures))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(retentionMillis(c.Retention)))
		b = binary.LittleEndian.AppendUint64(b, uint64(c.Retention))
	}
	if c.CancelAsked != 0 {
		flags |= flagCancel
		code, _ := reasonCode(c.CancelEnds)
		b = append(put48(put48(b, uint64(c.CancelAsked)), uint64(c.CancelUntil)), code)
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(c.CancelReason))), c.CancelReason...)
	}
	if c.UniqueKey != "" || c.Notify != "" {
		flags |= flagNames
		b = append(append(b, byte(len(c.UniqueKey))), c.UniqueKey...)
		b = append(append(b, byte(len(c.Notify))), c.Notify...)
	}
	blob := func(flag uint32, v []byte) {
		if v != nil {
			flags |= flag
			b = append(binary.LittleEndian.AppendUint32(b, uint32(len(v))), v...)
		}
	}
	if c.Metadata != nil {
		blob(flagMeta, appendMetadata([]byte{}, c.Metadata))
	}
	blob(flagState, c.State)
	if c.Error != "" {
		blob(flagError, []byte(c.Error))
	}
	blob(flagResult, c.Result)
	blob(flagProgress, c.Progress)
	if len(c.Events) > 0 {
		flags |= flagEvents
		var e []byte
		for _, ev := range c.Events {
			e = append(put48(e, uint64(ev.At)), byte(slices.Index(eventKinds[:], ev.Kind)), byte(len(ev.Worker)))
			e = append(append(append(e, ev.Worker...), byte(len(ev.Text))), ev.Text...)
		}
		b = append(binary.LittleEndian.AppendUint16(append(b, byte(len(c.Events))), uint16(len(e))), e...)
	}
	if c.Params == nil {
		flags |= flagNoParams
	}
	b = append(b, c.Params...)
	if c.HasHook {
		flags |= flagHook
	}
	if c.Overdue {
		flags |= flagOverdue
	}
	if c.Unknown {
		flags |= flagUnknown
	}
	h := []byte{recordVersion, byte(c.Status), place}
	h = put48(put48(h, c.Seq), uint64(c.Created))
	h = append(binary.LittleEndian.AppendUint32(h, flags), c.Priority)
	h = append(h, ruleLine.base...)
	h = binary.LittleEndian.AppendUint64(h, c.Fingerprint)
	return string(append(h, b...))
}

// packHolds is what a lease says of memberships, or what a record says of those that stay without one.
func packHolds(c *store.Command, rest bool) string {
	var words []string
	for _, h := range c.Holds {
		if scope := []string{"i", "c"}[h.Scope]; !rest || scope == "c" {
			words = append(words, limitKey(h.LimitKey)+"|"+scope)
		}
	}
	if c.Cost > 1 && len(words) > 0 {
		words = append([]string{fmt.Sprint("*", c.Cost)}, words...)
	}
	if c.Overflow && !rest {
		words = append([]string{"!"}, words...)
	}
	return strings.Join(words, " ")
}

var ruleLine = func() *lineDef {
	d, _ := parseLine("q t g  1 ")
	return d
}()

// ruleScript runs one decision of script/lib/rule.lua for each case.
// ARGV: wall, run, lease, v in ns, configuration; for each case: operation, record, lease value, arguments by blanks, four texts.
const ruleScript = `#!lua
-- include: base rate holds lib lim
wall, run, lease, vns = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local c = {rate = {0, 0}, burst = {0, 0}}
c.pause, c.order, c.til, c.rate[1], c.burst[1], c.rate[2], c.burst[2], c.ready, c.keepms, c.keep, c.losses, c.cancel = sunpack('<BBdddddddddd', ARGV[5])
QC['q'] = c
local H, out = lib(), {}
for i = 6, #ARGV, 8 do
  local op, r, t = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local a = {}
  for w in string.gmatch(ARGV[i + 3], '[^ ]+') do a[#a + 1] = tonumber(w) end
  local text = {ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], ARGV[i + 7]}
  local c = H.decode('id', r)
  c.d = {q = 'q', ty = 't', g = 'g', raw = ''}
  c.owner = ''
  if t ~= '' then
    local name, owner, at, h = string.match(t, '^(%S+) (%S+) (%d+) ?(.*)$')
    c.ht = h
    c.leased, c.name, c.token, c.owner, c.leasedat = true, name, tonumber(string.match(name, '^%d+')), owner, tonumber(at)
  end
  local say = ''
  if op == 'settle' then
    H.settle(c, {kind = a[1], reason = a[2], delay = a[3], grid = a[4], setstate = a[5] == 1, hook = a[6] == 1, decode = a[7] == 1, unstarted = a[8] == 1,
      err = text[1] ~= '' and text[1] or nil, text = text[2], blob = a[9] == 1 and text[3] or nil}, qcfg('q'))
  elseif op == 'cancel' then
    say = tostring(H.cancel(c, text[1], text[2], a[1] == 1, qcfg('q')))
  elseif op == 'reap' then
    H.reap(c, a[1] == 1, qcfg('q'), a[2])
  elseif op == 'expire' then
    say = tostring(H.isended(c))
    if H.isended(c) then H.expire(c, qcfg('q')) end
  elseif op == 'visit' then
    say = tostring(H.visitover(c))
    if H.visitover(c) then H.cancelatrest(c) end
  elseif op == 'promote' then
    say = tostring(H.isdue(c))
    if H.isdue(c) then H.promote(c, a[1]) end
  elseif op == 'act' then
    local from = 'q'
    say = H.act(c, {kind = a[1], as = a[2], deadline = a[3], prio = a[4], queue = text[1], by = text[2], from = from}, function() return a[5] end) and 'no' or ''
  end
  if c.st > 2 and c.purge == 0 and c.nt == '' then c.purge = H.purgeat(c) end
  out[#out + 1] = H.encode(c)
  out[#out + 1] = say
  out[#out + 1] = c.leased and '1' or '0'
  local x = c.st <= 2 and H.xscore(c) or 0
  out[#out + 1] = c.st <= 2 and H.linename(c) .. ' ' .. fmt('%d', H.score(c)) .. ' ' .. fmt('%d', x) or ''
end
return out
`

type ruleCase struct {
	name string
	c    *store.Command
	op   string
	args []any
	text [4]string
	// do makes the same decision in Go; it returns what the script says beside the record.
	do func(now rule.Now, c *store.Command, q store.QueueConfig, v time.Duration) string
}

// Cases are all pairs of a command and a decision, for several moments and configurations: the scripts must repeat package rule exactly.
func TestRulesInLuaAreThoseInGo(t *testing.T) {
	srv := redistest.Start(t)
	cl, err := srv.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	text, err := assembleText("ruletest", ruleScript)
	if err != nil {
		t.Fatal(err)
	}
	script := rueidis.NewLuaScript(text)
	const epoch = 2_000_000_000_000
	now := rule.Now{Wall: epoch, Run: epoch - 5000, Lease: epoch - 90_000}
	n := 0
	for _, v := range []time.Duration{20 * time.Second, 1500*time.Millisecond + 1} {
		for _, q := range []store.QueueConfig{{}, {MaxLosses: 2, CancelFor: 3 * time.Second, Retention: -1, Order: store.ByDeadline}} {
			q = q.WithDefaults()
			cases := ruleCases(now)
			for part := range slices.Chunk(cases, 100) {
				n += len(part)
				runRuleCases(t, cl, script, now, q, v, part)
				if t.Failed() {
					return
				}
			}
		}
	}
	if n < 5000 {
		t.Fatalf("only %d cases", n)
	}
}

func runRuleCases(t *testing.T, cl rueidis.Client, script *rueidis.Lua, now rule.Now, q store.QueueConfig, v time.Duration, cases []ruleCase) {
	t.Helper()
	args := []string{fmt.Sprint(int64(now.Wall)), fmt.Sprint(int64(now.Run)), fmt.Sprint(int64(now.Lease)), fmt.Sprint(int64(v)), packQueue(q)}
	for _, k := range cases {
		lease := ""
		if k.c.Place == store.Leased {
			lease = strings.TrimSpace(fmt.Sprintf("%s %s %d %s", k.c.Lease, k.c.Owner, k.c.LeasedAt, packHolds(k.c, false)))
		}
		args = append(args, k.op, packRecord(k.c), lease, strings.TrimSpace(fmt.Sprintln(k.args...)), k.text[0], k.text[1], k.text[2], k.text[3])
	}
	got, err := script.Exec(context.Background(), cl, []string{"{ns}:meta", "{ns}:none"}, args).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range cases {
		want := k.c.Clone()
		said := k.do(now, want, q, v)
		rec, say, leased, place := got[4*i], got[4*i+1], got[4*i+2], got[4*i+3]
		c, err := decodeRecord("id", rec, ruleLine, nil, false)
		if err != nil {
			t.Fatalf("%s of %s: the script wrote a record that cannot be read: %q", k.name, show(k.c), rec)
		}
		if leased == "1" {
			c.Place, c.Lease, c.Owner, c.LeasedAt, c.LeaseUntil = store.Leased, k.c.Lease, k.c.Owner, k.c.LeasedAt, k.c.LeaseUntil
			c.Starts++
			c.Holds, c.Overflow = k.c.Holds, k.c.Overflow // the lease is as it was
		}
		if want.Status.Terminal() && want.Notify == "" && want.PurgeAt == 0 {
			want.PurgeAt = rule.PurgeAt(want, q)
		}
		want.Queue, want.Type, want.Group, want.Cost = "q", "t", "g", 1
		if d := cmp.Diff(want, c, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("%s of %s: the script (+) does not do what the rule (-) does:\n%s", k.name, show(k.c), d)
		}
		if said != say {
			t.Fatalf("%s of %s: the script says %q, the rule %q", k.name, show(k.c), say, said)
		}
		if rec != packRecord(want) && !want.Tombstone {
			t.Fatalf("%s of %s: the record is packed as\n%q, not\n%q", k.name, show(k.c), rec, packRecord(want))
		}
		if want.Status.Terminal() {
			continue
		}
		lane := laneArg[want.Lane()]
		x := rule.EndsAt(want)
		if want.Status == store.Processing && want.CancelAsked != 0 {
			x = want.CancelUntil
		}
		letter := rule.Class(want)
		if want.Status == store.Pending && letter == store.ClassSuspect && rule.Holder(want) {
			letter = 6
		}
		if p := fmt.Sprintf("%s%s%d %d %d", ruleLine.base, lane, letter, int64(rule.Score(q.Order, want)), x); leased == "0" && p != place {
			t.Fatalf("%s of %s: it stands at %q, not %q", k.name, show(k.c), place, p)
		}
	}
}

func show(c *store.Command) string {
	return fmt.Sprintf("%s/%s unknown %v holds %v starts %d failures %d losses %d decodes %d cancel %d/%d/%s deadline %d hook %v", c.Status, c.Place, c.Unknown, c.Holds, c.Starts, c.Failures,
		c.Losses, c.Decodes, c.CancelAsked, c.CancelUntil, c.CancelEnds, c.Deadline, c.HasHook)
}
