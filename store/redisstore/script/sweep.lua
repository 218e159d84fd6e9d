-- sweep.lua: takes finished records away, on the packed record: past their retention, or more of them than their queue keeps. What was
-- cancelled or is not plain goes the slow way.
local FCODES = {'s', 'c', '1', '2', '3', '4', '5', '6', '7', '8'}

-- bare is where the blobs of a record begin and its flags, for a terminal record without cancel; nil for another.
local function bare(r)
  if not r or #r < 72 then return nil end
  local v, st, pl, _, _, _, _, _, _, _, _, _, _, _, _, f0, f1, f2 = byte(r, 1, 18)
  if v ~= 1 or st < 3 or f0 % 2 == 0 or band(f0, 72) ~= 0 then return nil end
  local p = 72
  if band(f0, 2) ~= 0 then p = p + 1 + byte(r, p) end
  if band(f0, 4) ~= 0 then p = p + 18 end
  if f1 % 2 == 1 then p = p + 20 end
  if band(f1, 2) ~= 0 then -- two names, each with its length before it
    p = p + 1 + byte(r, p)
    p = p + 1 + byte(r, p)
  end
  return p, st, pl, f0, f1, f2
end

-- swept collects what the quick way does to the records of one step.
local function newsweep() return {del = {}, set = {}, tombs = {}, fin = {}, z = {}, n = {}, lr = {}, raw = {}} end

local function linedef(w, base)
  local d = w.raw[base]
  if d == nil then
    local raw = call('HGET', P .. 'ld', base)
    local q = raw and string.match(raw, '^([^ ]+) ')
    d = q and {raw = raw, q = q} or false
    w.raw[base] = d
  end
  return d
end

-- own adds the keys of blobs that are not in the record.
local function own(w, id, f0, f1, f2)
  if band(f0, 48) == 0 and f2 % 4 == 0 then return end
  local l = w.del
  if band(f0, 16) ~= 0 then l[#l + 1] = P .. 'p|' .. id end
  if band(f0, 32) ~= 0 then l[#l + 1] = P .. 's|' .. id end
  if f2 % 2 == 1 then l[#l + 1] = P .. 'e|' .. id end
  if band(f2, 2) ~= 0 then l[#l + 1] = P .. 'r|' .. id end
end

-- gone takes a record out of the lists and counts of its queue.
local function gone(w, id, d, st, pl, base)
  local key = P .. 'f|' .. d.q .. '|' .. (st == 3 and 's' or st == 5 and 'c' or floor(pl / 16))
  local l = w.fin[key]
  if not l then
    l = {}
    w.fin[key] = l
  end
  l[#l + 1] = id
  w.z[#w.z + 1] = id
  w.n[d.q] = (w.n[d.q] or 0) + 1
  w.lr[base] = (w.lr[base] or 0) + 1
end

-- sweepflush writes. prefix is the key of which all that goes are the first members, if there is one.
local function sweepflush(w, prefix)
  if #w.z == 0 then return end
  if #w.del > 0 then call('DEL', unpack(w.del)) end
  if #w.set > 0 then call('MSET', unpack(w.set)) end
  for at, ids in pairs(w.tombs) do bury(at, ids) end
  for k, l in pairs(w.fin) do
    if k == prefix then call('ZREMRANGEBYRANK', k, 0, #l - 1) else call('ZREM', k, unpack(l)) end
  end
  -- with one retention for all, what goes is also the beginning of z
  local first, same = call('ZRANGE', P .. 'z', 0, #w.z - 1), true
  for i = 1, #w.z do
    if first[i] ~= w.z[i] then
      same = false
      break
    end
  end
  if same then call('ZREMRANGEBYRANK', P .. 'z', 0, #w.z - 1) else call('ZREM', P .. 'z', unpack(w.z)) end
  for q, k in pairs(w.n) do
    local key = P .. 'n|' .. q
    if call('HINCRBY', key, 'f', -k) <= 0 then
      call('HDEL', key, 'f')
      if call('EXISTS', key) == 0 then call('SREM', P .. 'qs', q) end
    end
  end
  for base, k in pairs(w.lr) do
    if call('HINCRBY', P .. 'lr', base, -k) <= 0 then
      call('HDEL', P .. 'lr', base)
      call('HDEL', P .. 'ld', base)
    end
  end
end

-- purge takes away records whose retention is over.
local function purge(ids)
  local rec, w = call('MGET', unpack(keysof(ids, 'c|'))), newsweep()
  for i = 1, #ids do
    local id, r = ids[i], rec[i]
    local p, st, pl, f0, f1, f2 = bare(r)
    local base = p and sub(r, 21, 36)
    local d = p and linedef(w, base)
    if d and sunpack('<I6', r, 51) <= wall and sunpack('<I6', r, 51) ~= 0 then
      w.del[#w.del + 1] = P .. 'c|' .. id
      own(w, id, f0, f1, f2)
      gone(w, id, d, st, pl, base)
      MR[7] = MR[7] + 1
    else
      local H = lib()
      local c = H.load(id, r)
      if not c then
        H.setaside(id)
      elseif H.purgeable(c) then
        H.forget(c)
        MR[7] = MR[7] + 1
      else
        H.zrem('z', id)
      end
      H.flush()
    end
  end
  sweepflush(w)
end

-- unbury takes away tombstones whose time is over. What is no tombstone any more, or a later one, stays.
local function unbury(at, most)
  local key = P .. 'y|' .. at
  local ids = call('LRANGE', key, 0, most - 1)
  local rec, del = #ids > 0 and call('MGET', unpack(keysof(ids, 'c|'))) or {}, {}
  for i = 1, #ids do
    local r = rec[i]
    if r and #r >= 72 and byte(r, 1) == 1 and band(byte(r, 16), 65) == 65 and sunpack('<I6', r, 51) <= wall then del[#del + 1] = P .. 'c|' .. ids[i] end
  end
  if #del > 0 then call('DEL', unpack(del)) end
  if #ids < most then
    call('DEL', key)
    call('ZREM', P .. 'yz', at)
  else
    call('LTRIM', key, most, -1)
    MR[2] = 1
  end
  MR[7] = MR[7] + #del
  return #ids
end

-- oldest is the first n finished ids of a queue by their end, and the key of them all if it is one.
local function oldest(q, n)
  local keys, lists, ids = {}, {}, {}
  for _, code in ipairs(FCODES) do
    local key = P .. 'f|' .. q .. '|' .. code
    if call('EXISTS', key) == 1 then keys[#keys + 1] = key end
  end
  if #keys == 1 then return call('ZRANGE', keys[1], 0, n - 1), keys[1] end
  for _, key in ipairs(keys) do
    local r = call('ZRANGE', key, 0, n - 1, 'WITHSCORES')
    lists[#lists + 1] = {r = r, i = 1, s = tonumber(r[2])}
  end
  while #ids < n and #lists > 0 do
    local b = 1
    for k = 2, #lists do
      if lists[k].s < lists[b].s then b = k end
    end
    local l = lists[b]
    ids[#ids + 1] = l.r[l.i]
    l.i = l.i + 2
    if l.r[l.i] then l.s = tonumber(l.r[l.i + 1]) else table.remove(lists, b) end
  end
  return ids
end

local trim
-- trim leaves only the tombstones of the oldest records of a queue that has more than it keeps. It looks at spare records beyond those.
function trim(q, spare)
  local over = tonumber(call('HGET', P .. 'n|' .. q, 'f') or '0') - qcfg(q).keep
  if over <= 0 then
    call('SREM', P .. 'over', q)
    return
  end
  local most = min(over, BOUND)
  local ids, key = oldest(q, most + spare)
  local rec, w, n = #ids > 0 and call('MGET', unpack(keysof(ids, 'c|'))) or {}, newsweep(), 0
  for i = 1, #ids do
    if n >= most then break end
    local id, r = ids[i], rec[i]
    local p, st, pl, f0, f1, f2 = bare(r)
    local base = p and sub(r, 21, 36)
    local d = p and linedef(w, base)
    local ended, at
    if d then ended, at = sunpack('<I6I6', r, 45) end
    if d and at ~= 0 then
      n = n + 1
      local left = ended + 600000 - wall
      if left > 0 then
        local k, t = #w.set, w.tombs[ended + 600000] or {}
        t[#t + 1], w.tombs[ended + 600000] = id, t
        w.set[k + 1], w.set[k + 2] = P .. 'c|' .. id, sub(r, 1, 15) .. string.char(f0 % 16 + 64 + (f0 >= 128 and 128 or 0), f1 % 4, 0, 0) ..
          sub(r, 20, 50) .. spack('<I6', ended + 600000) .. sub(r, 57, p - 1) .. d.raw
      else
        w.del[#w.del + 1] = P .. 'c|' .. id
      end
      own(w, id, f0, f1, f2)
      gone(w, id, d, st, pl, base)
    else
      key = nil
      local H = lib()
      local c = H.load(id, r)
      if not c then
        H.setaside(id)
        call('ZREM', P .. 'f|' .. q .. '|s', id)
      elseif c.st > 2 and c.purge ~= 0 and not c.tomb then
        n = n + 1
        H.unfinish(c)
        c.purge = c.ended + 600000
        if H.purgeable(c) then
          H.incr(P .. 'lr', c.ln, -1)
          H.erase(c)
        else
          H.entomb(c)
        end
      end
      H.flush()
    end
  end
  sweepflush(w, key)
  MR[7] = MR[7] + n
  if n == 0 and spare == 0 then
    trim(q, 400) -- they wait for their outbox
  elseif n == 0 then
    call('SREM', P .. 'over', q)
  elseif over > n then
    MR[2] = 1
  end
end
