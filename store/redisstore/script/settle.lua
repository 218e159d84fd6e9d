#!lua flags=allow-oom
-- settle.lua: ends leases, each with an outcome, if the whole lease name is current.
-- KEYS  the guard pair
-- ARGV  number of items, whether an id comes twice (0, 1), number of different options, the options (kind, flags, reason, delay, grid, observed,
--       length of the event's text; kind 0 only compares), which of them each item has (one byte each, from 1); for each item: id, lease name,
--       then what the flags name: 32 error, 64 blob, 128 follow-ups (as intake.lua says, after the index of what comes behind them).
--       flags: 1 set state, 2 has hook, 4 decode, 8 unstarted, 16 again; a kind over 16 has a push behind all that: how many arguments follow, then
--       what push.lua says of an entry, from its list on, without the value, which is the blob
-- reply {three bytes for each item: state, status, reason (state 9: the item is invalid), follow-up answers}
-- include: base rate holds lib lim intake quick push1
local err = begin(false)
if err then return err end
local n, twice, a = tonumber(ARGV[1]), ARGV[2] == '1', 4 + tonumber(ARGV[3])
local O = {}
for i = 4, a - 1 do
  local o, f = {}, nil
  o.kind, o.flags, o.reason, o.delay, o.grid, o.observed, o.cut = sunpack('<BBBdddB', ARGV[i])
  o.push = o.kind > 16
  if o.push then o.kind = o.kind - 16 end
  f = o.flags
  o.setstate, o.hook, o.decode, o.unstarted, o.again = f % 2 == 1, band(f, 2) ~= 0, band(f, 4) ~= 0, band(f, 8) ~= 0, band(f, 16) ~= 0
  o.err, o.blob, o.follow = band(f, 32) ~= 0, band(f, 64) ~= 0, f >= 128
  o.more = f >= 32 or o.push
  -- what may go a short way: see quick.lua
  o.done = o.kind == 1 and (f == 0 or f == 64) and not o.push
  o.poll = o.kind == 3 and band(f, 172) == 0
  O[i - 3] = o
end
local which = ARGV[a]
a = a + 1
local ids, names, ks, opt, at = {}, {}, {}, {}, {}
for i = 1, n do
  local id, o = ARGV[a], O[byte(which, i)]
  ids[i], names[i], ks[i], opt[i] = id, ARGV[a + 1], P .. 'c|' .. id, o
  a = a + 2
  if o.more then
    at[i] = a
    if o.err then a = a + 1 end
    if o.blob then a = a + 1 end
    if o.follow then a = tonumber(ARGV[a]) end
    if o.push then a = a + 1 + tonumber(ARGV[a]) end
  end
end
local t, rec = call('HMGET', P .. 'T', unpack(ids)), call('MGET', unpack(ks))
local out, follows, seen = {}, {}, {}
local H
quickdefs(rec)

-- settlement is one item as the rules want it.
local function settlement(i)
  local o, p = opt[i], at[i]
  local s = {kind = o.kind, reason = o.reason, delay = o.delay, grid = o.grid, observed = o.observed, setstate = o.setstate, hook = o.hook,
    decode = o.decode, unstarted = o.unstarted, text = ''}
  if o.err then
    s.err = ARGV[p]
    s.text = sub(s.err, 1, o.cut)
    p = p + 1
  end
  if o.blob then
    s.blob = ARGV[p]
    p = p + 1
  end
  if o.follow then
    s.follow = p + 1
    p = tonumber(ARGV[p])
  end
  if o.push then s.push = readpush(p + 1, s.blob or '') end
  return s
end

-- slow settles one item by the rules.
local function slow(i, cur, r, again)
  if not H then H = lib() end
  local id, name, m = ids[i], names[i], #names[i] + 1
  if again then -- the same id twice in one call
    quickflush()
    H.flush()
    cur, r = call('HGET', P .. 'T', id), record(id)
  end
  local c = H.load(id, r, cur)
  local mine = cur and sub(cur, 1, m) == name .. ' '
  if c and c.leased and mine and opt[i].kind == 0 then
    out[i] = string.char(9, c.st, 0)
  elseif c and c.leased and mine then
    local s, q = settlement(i), qcfg(c.d.q)
    if s.kind == 6 then
      local f = c.d.q .. '|' .. (c.st == 1 and 'i' or 'k') .. '|' .. c.d.ty
      call('HSET', P .. 'th', f, packthrottle(throttled(throttle(call('HGET', P .. 'th', f)), s.observed, q.rate[c.st])))
    end
    H.leave(c)
    H.settle(c, s, q)
    if s.push and c.st > 2 and pushable(s.push) then
      c.pushed = true
      dopush(s.push)
    end
    H.follow(c)
    if s.kind == 7 and c.st <= 2 then H.wake('w|' .. (c.st == 1 and 'i' or 'k') .. '|' .. c.d.q) end
    out[i] = string.char(1, c.st, c.reason)
    if s.follow then
      quickflush()
      H.flush()
      local codes, say = submit(s.follow, false, false)
      follows[#follows + 1] = {codes, say}
    end
  else
    local state, st, reason = 3, 0, 0
    if c then st, reason = c.st, c.reason end
    if c and name ~= '' and c.last == name then
      state = 2
    elseif opt[i].again then
      state = 4
    end
    out[i] = string.char(state, st, reason)
    if mine and not c then H.setaside(id) end
    if opt[i].follow then follows[#follows + 1] = {'', {}} end
  end
end

for i = 1, n do
  local id, cur, r, o = ids[i], t[i], rec[i], opt[i]
  local again, done = false, nil
  if twice then again, seen[id] = seen[id], true end
  if cur and r and not again then
    if o.done then
      done = quickdone(id, names[i], cur, r, o.blob and ARGV[at[i]])
    elseif o.poll then
      done = quickpoll(id, names[i], cur, r, o, o.blob and ARGV[at[i]])
    end
  end
  if done then out[i] = done else slow(i, cur, r, again) end
end
quickflush()
if H then H.flush() end
return {table.concat(out), follows}
