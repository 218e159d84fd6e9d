#!lua flags=allow-oom
-- settle.lua: ends leases, each with an outcome, if the whole lease name is current.
-- KEYS  the guard pair
-- ARGV  number of items; for each: id, lease name, options (kind, flags, reason; then, unless it is a plain done: delay, grid, observed, length
--       of the event's text; kind 0 only compares), then what the flags name: 32 error, 64 blob, 128 follow-ups (as intake.lua says, after
--       the index of what comes behind them). flags: 1 set state, 2 has hook, 4 decode, 8 unstarted, 16 again
-- reply {three bytes for each item: state, status, reason (state 9: the item is invalid), follow-up answers}
-- include: base rate lib intake quick
local err = begin(false)
if err then return err end
local n, a = tonumber(ARGV[1]), 2
local ids, names, opts, kinds, flags, at, ks = {}, {}, {}, {}, {}, {}, {}
for i = 1, n do
  local id, opt = ARGV[a], ARGV[a + 2]
  local kind, f = byte(opt, 1, 2)
  ids[i], names[i], opts[i], kinds[i], flags[i], ks[i] = id, ARGV[a + 1], opt, kind, f, P .. 'c|' .. id
  a = a + 3
  at[i] = a
  if f >= 32 then
    if band(f, 32) ~= 0 then a = a + 1 end
    if band(f, 64) ~= 0 then a = a + 1 end
    if f >= 128 then a = tonumber(ARGV[a]) end
  end
end
local t, rec = call('HMGET', P .. 'T', unpack(ids)), call('MGET', unpack(ks))
local out, follows, seen = {}, {}, {}
local H
quickdefs(rec)

-- options are those of one item as the rules want them.
local function options(i)
  local f, opt, p = flags[i], opts[i], at[i]
  local s = {kind = kinds[i], reason = byte(opt, 3), delay = 0, grid = 0, text = '',
    setstate = f % 2 == 1, hook = band(f, 2) ~= 0, decode = band(f, 4) ~= 0, unstarted = band(f, 8) ~= 0}
  local cut
  if #opt > 3 then s.delay, s.grid, s.observed, cut = sunpack('<dddB', opt, 4) end
  if band(f, 32) ~= 0 then
    s.err = ARGV[p]
    s.text = sub(s.err, 1, cut)
    p = p + 1
  end
  if band(f, 64) ~= 0 then
    s.blob = ARGV[p]
    p = p + 1
  end
  if f >= 128 then s.follow = p + 1 end
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
  if c and c.leased and mine and kinds[i] == 0 then
    out[i] = string.char(9, c.st, 0)
  elseif c and c.leased and mine then
    local s, q = options(i), qcfg(c.d.q)
    if s.kind == 6 then
      local f = c.d.q .. '|' .. (c.st == 1 and 'i' or 'k') .. '|' .. c.d.ty
      call('HSET', P .. 'th', f, packthrottle(throttled(throttle(call('HGET', P .. 'th', f)), s.observed, q.rate[c.st])))
    end
    H.leave(c)
    H.settle(c, s, q)
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
    elseif band(flags[i], 16) ~= 0 then
      state = 4
    end
    out[i] = string.char(state, st, reason)
    if mine and not c then H.setaside(id) end
    if flags[i] >= 128 then follows[#follows + 1] = {'', {}} end
  end
end

for i = 1, n do
  local id, cur, r = ids[i], t[i], rec[i]
  local again = seen[id]
  seen[id] = true
  local done
  if cur and r and not again then
    local kind, f = kinds[i], flags[i]
    if kind == 1 and (f == 0 or f == 64) then
      done = quickdone(id, names[i], cur, r, f == 64 and ARGV[at[i]])
    elseif kind == 3 and band(f, 172) == 0 then
      done = quickpoll(id, names[i], cur, r, opts[i], f, f >= 64 and ARGV[at[i]])
    end
  end
  if done then out[i] = done else slow(i, cur, r, again) end
end
quickflush()
if H then H.flush() end
return {table.concat(out), follows}
