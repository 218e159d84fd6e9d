#!lua flags=allow-oom
-- settle.lua: ends leases, each with an outcome, if the whole lease name is current.
-- KEYS  the guard pair
-- ARGV  number of items; for each: id, lease name, options (kind, flags, reason; then from retry on: delay, grid, observed, length of the
--       event's text; kind 0 only compares), then what the flags name: 32 error, 64 blob, 128 follow-ups (as intake.lua says).
--       flags: 1 set state, 2 has hook, 4 decode, 8 unstarted, 16 again
-- reply {three bytes for each item: state, status, reason (state 9: the item is invalid), follow-up answers}
-- include: base rate lib intake
local err = begin(false)
if err then return err end
local H = lib()
local n, a = tonumber(ARGV[1]), 2
local items, ids, ks = {}, {}, {}
for i = 1, n do
  local id, name, opt = ARGV[a], ARGV[a + 1], ARGV[a + 2]
  a = a + 3
  local kind, flags, reason = byte(opt, 1, 3)
  local s = {name = name, kind = kind, flags = flags, reason = reason, delay = 0, grid = 0, text = ''}
  if flags ~= 0 then
    s.setstate, s.hook, s.decode, s.unstarted = flags % 2 == 1, band(flags, 2) ~= 0, band(flags, 4) ~= 0, band(flags, 8) ~= 0
  end
  local cut
  if #opt > 3 then s.delay, s.grid, s.observed, cut = sunpack('<dddB', opt, 4) end
  if band(flags, 32) ~= 0 then
    s.err = ARGV[a]
    s.text = sub(s.err, 1, cut)
    a = a + 1
  end
  if band(flags, 64) ~= 0 then
    s.blob = ARGV[a]
    a = a + 1
  end
  if flags >= 128 then
    s.follow = a
    a = tonumber(ARGV[a])
    s.follow = s.follow + 1
  end
  items[i], ids[i], ks[i] = s, id, P .. 'c|' .. id
end
local t, rec = call('HMGET', P .. 'T', unpack(ids)), call('MGET', unpack(ks))
local out, follows, seen = {}, {}, {}
for i = 1, n do
  local s, id, cur, r = items[i], ids[i], t[i], rec[i]
  if seen[id] then -- the same id twice in one call
    H.flush()
    cur, r = call('HGET', P .. 'T', id), call('GET', ks[i])
  end
  seen[id] = true
  local m = #s.name + 1
  local c = H.load(id, r, cur)
  if c and c.leased and sub(cur, 1, m) == s.name .. ' ' and s.kind == 0 then
    out[i] = string.char(9, c.st, 0)
  elseif c and c.leased and sub(cur, 1, m) == s.name .. ' ' then
    local q = qcfg(c.d.q)
    if s.kind == 6 then
      local lane = c.st == 1 and 'i' or 'k'
      local f = c.d.q .. '|' .. lane .. '|' .. c.d.ty
      local th = throttled(throttle(call('HGET', P .. 'th', f)), s.observed, q.rate[c.st])
      call('HSET', P .. 'th', f, packthrottle(th))
    end
    H.leave(c)
    H.settle(c, s, q)
    H.follow(c)
    if s.kind == 7 and c.st <= 2 then H.wake('w|' .. (c.st == 1 and 'i' or 'k') .. '|' .. c.d.q) end
    out[i] = string.char(1, c.st, c.reason)
    if s.follow then
      H.flush()
      local codes, say = submit(s.follow, false, false)
      follows[#follows + 1] = {codes, say}
    end
  else
    local state, st, reason = 3, 0, 0
    if c then st, reason = c.st, c.reason end
    if c and c.stok ~= 0 and fmt('%.0f', c.stok) .. '.' .. c.snon == s.name then
      state = 2
    elseif band(s.flags, 16) ~= 0 then
      state = 4
    end
    out[i] = string.char(state, st, reason)
    if cur and not c and sub(cur, 1, m) == s.name .. ' ' then H.setaside(id) end
    if s.follow then follows[#follows + 1] = {'', {}} end
  end
end
H.flush()
return {table.concat(out), follows}
