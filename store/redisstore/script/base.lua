-- base.lua: what every script begins with. KEYS[1] is {ns}:meta, which always exists, KEYS[2] is {ns}:none, which never does.
local P = string.sub(KEYS[1], 1, -5) -- "{ns}:": every key that a script builds begins with it
local call = redis.call
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local sub, byte, fmt = string.sub, string.byte, string.format
local spack, sunpack = struct.pack, struct.unpack
local band = bit.band
local unpack, tonumber = unpack, tonumber
local SCHEMA = 1
local ran -- the run clock of the step before
local wall, run, lease, vns -- the three clocks in ms; the visibility timeout in ns
local cv -- version of the configuration
local BOUND = 100 -- items of each kind that one step of maintenance takes
local MR -- what maintenance says: wall, more, next, reaped, expired, promoted, purged, lost, claim lost, config version, visibility, lease clock
local lib, LIB -- makes what is not needed by every call, see the folder lib; what it made
local lim, LM  -- the same for what only limits and fair turns need, see the folder lim
local limited -- the limits of the namespace, packed, if it has some, or something is left of those that it had

-- begin reads the clocks. With advance it moves them, as Claim, Renew and Maintain do; with reading it writes nothing at all. It returns an
-- error reply if the schema is not ours. Without either, the run clock is seen at most a visibility timeout ahead: see rule.Clocks.Peek.
local function begin(advance, reading)
  local m = call('HMGET', KEYS[1], 'rd', 'last', 'run', 'lease', 'v', 'clk', 'cv', 'lim')
  if m[6] then
    wall = tonumber(m[6])
  else
    local t = call('TIME')
    wall = t[1] * 1000 + floor(t[2] / 1000)
  end
  vns, cv, limited = tonumber(m[5] or '20000000000'), tonumber(m[7] or '0'), m[8]
  if not (m[1] and m[2] and m[3] and m[4]) then -- a new namespace, or one that was flushed: it begins now
    run, lease, ran = wall, wall, wall
    if reading then return end
    local w = fmt('%d', wall)
    call('HSET', KEYS[1], 'rd', SCHEMA, 'wr', SCHEMA, 'last', w, 'run', w, 'lease', w)
    return
  end
  if tonumber(m[1]) > SCHEMA then
    return redis.error_reply('TWOLANE_SCHEMA ' .. m[1])
  end
  local d = max(0, wall - tonumber(m[2]))
  ran = tonumber(m[3])
  run = tonumber(m[3]) + (advance and d or reading and d or min(d, floor(vns / 1e6)))
  lease = tonumber(m[4]) + min(d, floor(floor(vns / 1e6) / 4))
  if advance then
    call('HSET', KEYS[1], 'last', fmt('%d', wall), 'run', fmt('%d', run), 'lease', fmt('%d', lease))
  end
end

-- qcfg is the configuration of a queue with its defaults, as the Go side packed it.
local QC = {}
local function qcfg(q)
  local c = QC[q]
  if not c then
    local s = call('HGET', P .. 'cfg', q)
    c = {pause = 0, order = 0, til = 0, rate = {0, 0}, burst = {0, 0}, ready = 0, keepms = 86400000, keep = 100000, losses = 5, cancel = 600000}
    if s then
      c.pause, c.order, c.til, c.rate[1], c.burst[1], c.rate[2], c.burst[2], c.ready, c.keepms, c.keep, c.losses, c.cancel = sunpack('<BBdddddddddd', s)
      c.fair = byte(s, 83) == 1
    end
    QC[q] = c
  end
  return c
end

-- publish sends a wake-up, best effort: without the right to publish nothing else fails.
local function publish(msg)
  redis.pcall('SPUBLISH', P .. 'w', msg)
end

local function openkey(q, lane, cl, ty) return P .. 'o|' .. q .. '|' .. lane .. cl .. '|' .. ty end

-- nextpoll keeps when the first poll of the open lines in key is due.
local function nextpoll(key)
  local h = limited and call('ZRANGEBYSCORE', key, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1) or call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if h[2] then call('ZADD', P .. 'kn', h[2], sub(key, #P + 1)) else call('ZREM', P .. 'kn', sub(key, #P + 1)) end
end

-- many makes a call for any number of members of one key.
local function many(cmd, key, l)
  for i = 1, #l, 4000 do call(cmd, key, unpack(l, i, min(i + 3999, #l))) end
end

-- mget reads any number of fields or members of one key.
local function mget(cmd, key, l)
  local n = #l
  if n <= 4000 then return call(cmd, key, unpack(l)) end
  local out = {}
  for i = 1, n, 4000 do
    local r = call(cmd, key, unpack(l, i, min(i + 3999, n)))
    for j = 1, #r do out[i + j - 1] = r[j] end
  end
  return out
end

-- hset and zadd write pairs into a hash or a sorted set that had n members. The server keeps few short ones as a list through which each is looked
-- for; one that is too long lets it make a table.
local LONG = string.rep('~', 65)
local function hset(key, n, l)
  if n >= 16 or n + #l / 2 < 16 then return many('HSET', key, l) end
  call('HSET', key, LONG, '')
  many('HSET', key, l)
  call('HDEL', key, LONG)
end

local function zadd(key, n, l)
  if n >= 16 or n + #l / 2 < 16 then return many('ZADD', key, l) end
  call('ZADD', key, 0, LONG)
  many('ZADD', key, l)
  call('ZREM', key, LONG)
end

-- astree does that for a sorted set that has become long.
local function astree(key)
  call('ZADD', key, 0, LONG)
  call('ZREM', key, LONG)
end

-- sumup adds to numbers of a hash, and takes out what is 0 then; it answers the fields that it took out.
local function sumup(key, l)
  local f, gone = {}, {}
  for k in pairs(l) do f[#f + 1] = k end
  if #f == 1 then
    local k = f[1]
    local r = call('HINCRBY', key, k, l[k])
    if r <= 0 then
      call('HDEL', key, k)
      gone[1] = k
    elseif r == l[k] and call('HLEN', key) == 16 then
      hset(key, 15, {k, fmt('%d', r)})
    end
  elseif #f > 1 then
    local have, set, new = call('HMGET', key, unpack(f)), {}, false
    for i = 1, #f do
      local r = tonumber(have[i] or '0') + l[f[i]]
      if r > 0 then
        set[#set + 1], set[#set + 2], new = f[i], fmt('%d', r), new or not have[i]
      elseif have[i] then
        gone[#gone + 1] = f[i]
      end
    end
    if #set > 0 then hset(key, new and call('HLEN', key) or 16, set) end
    if #gone > 0 then many('HDEL', key, gone) end
  end
  return gone
end

local function keysof(ids, prefix)
  local ks = {}
  for i = 1, #ids do ks[i] = P .. prefix .. ids[i] end
  return ks
end

-- bury notes when tombstones go.
local function bury(at, ids)
  at = fmt('%d', at)
  call('RPUSH', P .. 'y|' .. at, unpack(ids))
  call('ZADD', P .. 'yz', at, at)
end

-- record is the record of an id, false if there is none or something else is in its place.
local function record(id) return call('MGET', P .. 'c|' .. id)[1] end

-- decimal writes a whole number of at least 0. Formatting is dear, and numbers that follow each other differ in their last digits only.
local DIGITS = '00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899'
local hundreds, high = 0, ''
local function decimal(x)
  local k = x % 100
  local h = (x - k) / 100
  if h == 0 then return fmt('%d', x) end
  if h ~= hundreds then hundreds, high = h, fmt('%d', h) end
  return high .. sub(DIGITS, 2 * k + 1, 2 * k + 2)
end
