-- quick.lua: the two settles that make up nearly all of the work, done on the packed record instead of a decoded one: the Done of a first run,
-- and the Processing of a poll, also with times. What is not plain goes the slow way. Both ways write the same; a test compares them.
local qL, qset, qtomb, qz, qfin, qline, qended, qx, qxl = {}, {}, {}, {}, {}, {}, {}, {}, {}
local qleft = {} -- those who leave a limit, by its name, see leaves
local QDEF, QCUT, QOPTS, QRUN = {}, {}, {}, {}
local QTAIL, QTAILS, QOWNER = '', 0, nil -- what stands behind the name of the lease that was looked at last: owner and time; how long it is; the owner
local WALL6, EVENT

local QRAW = {} -- definitions that were read at once

-- quickdefs reads the definitions of the lines of all records in one go.
local function quickdefs(recs)
  local bases, seen = {}, {}
  for i = 1, #recs do
    local r = recs[i]
    local base = r and #r >= 44 and sub(r, 21, 36)
    if base and not seen[base] then
      seen[base] = true
      bases[#bases + 1] = base
    end
  end
  if #bases < 2 then return end
  local raw = call('HMGET', P .. 'ld', unpack(bases))
  for i = 1, #bases do QRAW[bases[i]] = raw[i] end
end

local function quickdef(base)
  local d = QDEF[base]
  if d == nil then
    local raw = QRAW[base]
    if raw == nil then raw = call('HGET', P .. 'ld', base) end
    local q, ty, g = string.match(raw or '', '^([^ ]+) ([^ ]+) ([^ ]*) ')
    d = q and {q = q, ty = ty, g = g, raw = raw, key = P .. 'n|' .. q, I = 'I' .. ty, K = 'K' .. ty, k = 'k' .. ty, done = 0, polls = 0, tombs = 0} or false
    if d then
      local c = qcfg(q)
      d.keepms, d.fin = c.keepms, P .. 'f|' .. q .. '|s'
    end
    QDEF[base] = d
  end
  return d
end

-- owner is who holds a lease of that name and value, and what it says of memberships, if anything; nil if it is another lease. Most leases of a call
-- differ in their names and memberships only.
local function owner(name, cur)
  local m = #name
  if m == 0 or byte(cur, m + 1) ~= 32 or sub(cur, 1, m) ~= name then return nil end
  local e = m + 1 + QTAILS
  if QTAILS == 0 or sub(cur, m + 2, e) ~= QTAIL or e < #cur and byte(cur, e + 1) ~= 32 then
    local tail, o = string.match(cur, '^(([^ ]+) %d+)', m + 2)
    if not tail then return nil end
    QTAIL, QTAILS, QOWNER, e = tail, #tail, o, m + 1 + #tail
  end
  return QOWNER, e < #cur and sub(cur, e + 2) or nil
end

-- cut is where the name of the limit ends in what a lease says of memberships, if that is one of cost 1, as nearly always; else false.
local function cut(h)
  local p = QCUT[h]
  if p == nil then
    p = string.find(h, '|', 1, true)
    local e, b = p and string.find(h, '|', p + 1, true), byte(h)
    if not e or e + 1 ~= #h or b == 33 or b == 42 then p = false end
    QCUT[h] = p
  end
  return p
end

-- rest is what stays of memberships between polls, as a record has it.
local function rest(h)
  if not cut(h) then return holds(h).rest end
  return byte(h, -1) == 99 and h or ''
end

-- leaves are those who leave a limit: what is stored of them, and by value how many they are.
local function leaves(limit)
  local t = qleft[limit]
  if not t then
    t = {{}, {}}
    qleft[limit] = t
  end
  return t[1], t[2]
end

-- quickleave ends memberships: all of them, or those of the invocation.
local function quickleave(id, h, all)
  local p = cut(h)
  if p then
    if not all and byte(h, -1) == 99 then return end
    local l, n = leaves(sub(h, 1, p - 1))
    local v = sub(h, p + 1, -3)
    l[#l + 1], n[v] = v .. '|' .. id, (n[v] or 0) + 1
    return
  end
  h = holds(h)
  for i = 1, #h, 2 do
    if all or h[i + 1] == 'i' then
      local k = h[i]
      p = string.find(k, '|', 1, true)
      local l, n = leaves(sub(k, 1, p - 1))
      local v = sub(k, p + 1)
      entries(l, v .. '|', id, h.cost)
      n[v] = (n[v] or 0) + h.cost
    end
  end
end

-- quickrelease takes those who have left out of the sets of members. If somebody may wait for them, limits see to it.
local function quickrelease()
  if not next(qleft) then return end
  if call('EXISTS', P .. 'fd') == 1 then
    lim().release(qleft)
  else
    for limit, t in pairs(qleft) do many('ZREM', P .. 'm|' .. limit, t[1]) end
  end
  qleft = {}
end

-- quickdone ends a command SUCCEEDED: one that has never been settled, with no cancel, no names, no blobs.
local function quickdone(id, name, cur, r, blob)
  local v, st, pl, _, _, _, _, _, _, _, _, _, _, _, _, f0, f1, f2 = byte(r, 1, 18)
  if f0 ~= 0 and f0 ~= 4 or f1 and f1 > 1 or v ~= 1 or st ~= 1 or pl ~= 1 or f2 ~= 0 and f2 ~= 16 or #r < 44 or blob and #blob > 512 then return nil end
  local o, h = owner(name, cur)
  if not o then return nil end
  local base = sub(r, 21, 36)
  local d = quickdef(base)
  if not d then return nil end
  local keep, opts, p, times = d.keepms, '', 45, ''
  if f0 == 4 then
    if #r < 62 then return nil end
    local _, _, dl = sunpack('<I6I6I6', r, 45)
    if dl ~= 0 then qxl[#qxl + 1] = id end
    times, p = sub(r, 45, 62), 63
  end
  if f1 == 1 then
    opts = sub(r, p, p + 19)
    p = p + 20
    local k = QOPTS[opts]
    if not k then
      k = sunpack('<d', opts, 5)
      QOPTS[opts] = k
    end
    if k ~= 0 then keep = k end
  end
  local purge = wall + max(keep, 600000)
  if keep < 0 then purge = wall + 600000 end
  local runs = QRUN[purge]
  if not runs then -- wall, purge, one start, nothing else
    runs = spack('<I6I6I4I4I4I2B', wall, purge, 1, 0, 0, 0, 0)
    QRUN[purge] = runs
  end
  d.done = d.done + 1
  if h then quickleave(id, h, true) end
  qL[#qL + 1], qended[#qended + 1] = id, id
  if keep < 0 then
    d.tombs = d.tombs + 1
    local s = '\1\3\9' .. sub(r, 4, 15) .. string.char(67 + f0, f1, 0, 0) .. sub(r, 20, 44) .. runs .. string.char(#name) .. name ..
      times .. opts .. d.raw
    qset[#qset + 1], qset[#qset + 2] = P .. 'c|' .. id, s
    qtomb[#qtomb + 1] = id
    return '\1\3\0'
  end
  local ev = EVENT and EVENT[o]
  if not ev then
    EVENT = EVENT or {}
    local e = spack('<I6BBc0B', wall, 13, #o, o, 0)
    ev = spack('<BI2', 1, #e) .. e
    EVENT[o] = ev
  end
  local size = ''
  if blob then size, f1 = spack('<I4', #blob), f1 + 32 end
  qset[#qset + 1], qset[#qset + 2] = P .. 'c|' .. id, '\1\3\9' .. sub(r, 4, 15) .. string.char(3 + f0, f1 + 128, f2, 0) .. sub(r, 20, 44) ..
    runs .. string.char(#name) .. name .. times .. opts .. size .. (blob or '') .. ev .. sub(r, p)
  local l = qfin[d.fin]
  if not l then
    l = {}
    qfin[d.fin] = l
  end
  WALL6 = WALL6 or fmt('%d', wall)
  l[#l + 1], l[#l + 2] = WALL6, id
  qz[#qz + 1], qz[#qz + 2] = decimal(purge), id
  return '\1\3\0'
end

-- quickpoll parks a PROCESSING command again: one with no cancel, no error, no failure or loss.
local function quickpoll(id, name, cur, r, opt, blob)
  local v, st, pl, _, _, _, _, _, _, _, _, _, _, _, _, f0, f1, f2 = byte(r, 1, 18)
  if f0 and band(f0, 123) ~= 3 or v ~= 1 or st ~= 2 or pl ~= 1 or band(f1, 118) ~= 0 or f2 % 128 ~= 0 and f2 % 128 ~= 16 or #r < 72 or blob and #blob > 512 then return nil end
  if (f0 >= 128) ~= opt.hook or opt.setstate and not blob then return nil end
  local o, h = owner(name, cur)
  if not o then return nil end
  local _, _, starts, polls, fail, loss, dec = sunpack('<I6I6I4I4I4I2B', r, 45)
  if fail ~= 0 or loss ~= 0 or dec ~= 0 then return nil end
  local d = quickdef(sub(r, 21, 36))
  if not d then return nil end
  local p, kept = 72, nil
  if f2 >= 128 then -- what stays of its memberships must be what the record says
    p = 74 + sunpack('<I2', r, 72)
    kept = sub(r, 72, p - 1)
    if not h or rest(h) ~= sub(kept, 3) then return nil end
  elseif h and rest(h) ~= '' then
    return nil
  end
  p = p + 1 + byte(r, p) -- behind the settled lease
  local times = ''
  if band(f0, 4) ~= 0 then
    if #r < p + 17 then return nil end
    local _, _, dl = sunpack('<I6I6I6', r, p)
    if dl ~= 0 then
      if wall >= dl then return nil end
      qxl[#qxl + 1] = id
      qx[#qx + 1], qx[#qx + 2] = decimal(dl), id
    end
    times = sub(r, p, p + 17)
    p = p + 18
  end
  local due, grid = run + max(opt.delay, 100), opt.grid
  if grid > 1 then due = floor((due + grid - 1) / grid) * grid end
  local opts, size, flags = '', '', nil
  if opt.setstate then -- the state is the first blob: no metadata
    if f1 % 2 == 1 then
      opts = sub(r, p, p + 19)
      p = p + 20
    end
    if band(f1, 8) ~= 0 then p = p + 4 + sunpack('<I4', r, p) else f1 = f1 + 8 end
    flags = string.char(f0, f1, f2, 0)
    size = spack('<I4', #blob)
  else
    flags = sub(r, 16, 19)
  end
  if h then quickleave(id, h, false) end
  qL[#qL + 1] = id
  local runs = spack('<I6I6I4I4I4I2B', 0, due, starts + 1, polls + 1, 0, 0, 0)
  if kept then runs = runs .. kept end
  qset[#qset + 1], qset[#qset + 2] = P .. 'c|' .. id, sub(r, 1, 15) .. flags .. sub(r, 20, 44) ..
    runs .. string.char(#name) .. name .. times .. opts .. size .. (opt.setstate and blob or '') .. sub(r, p)
  local line = sub(r, 21, 36) .. 'k0'
  local l = qline[line]
  if not l then
    l = {head = due, open = openkey(d.q, 'k', '0', d.ty), q = d.q, g = d.g}
    qline[line] = l
  end
  l.head = min(l.head, due)
  l[#l + 1], l[#l + 2] = decimal(due), id
  d.polls = d.polls + 1
  return '\1\2\0'
end

local function quickcount(key, f, delta)
  local r = call('HINCRBY', key, f, delta)
  if r <= 0 then
    call('HDEL', key, f)
    if call('EXISTS', key) == 0 then call('SREM', P .. 'qs', sub(key, #P + 3)) end
  elseif r == delta then
    call('SADD', P .. 'qs', sub(key, #P + 3))
  end
  return r
end

local function quickflush()
  if #qL == 0 then return end
  for i = 1, #qset, 4000 do call('MSET', unpack(qset, i, min(i + 3999, #qset))) end
  if #qtomb > 0 then bury(wall + 600000, qtomb) end
  call('ZREM', P .. 'L', unpack(qL))
  call('HDEL', P .. 'T', unpack(qL))
  for k, l in pairs(qfin) do call('ZADD', k, unpack(l)) end
  if #qz > 0 then call('ZADD', P .. 'z', unpack(qz)) end
  if #qxl > 0 then call('ZREM', P .. 'xl', unpack(qxl)) end
  if #qx > 0 then call('ZADD', P .. 'x', unpack(qx)) end
  local polled = {}
  for line, l in pairs(qline) do
    zadd(P .. 'l|' .. line, #l < 32 and 16 or 0, l)
    local key = l.open
    if not (limited and lim().anyfiled() and LM.lower(line, l.head)) then
      if qcfg(l.q).fair then lim().fairhead(sub(key, #P + 3), l.q, 'k', l.g, line) end
      if call('ZADD', key, 'LT', l.head, line) == 1 and call('ZCARD', key) == 16 then astree(key) end
    end
    polled[l.open] = true
  end
  for key in pairs(polled) do nextpoll(key) end
  local sums, tombs, groups = {}, {}, {} -- by key and field; by base; by group
  local function add(key, f, delta)
    local l = sums[key]
    if not l then
      l = {}
      sums[key] = l
    end
    l[f] = (l[f] or 0) + delta
  end
  for base, d in pairs(QDEF) do
    if d and d.done > 0 then
      add(d.key, d.I, -d.done)
      if d.done > d.tombs then add(d.key, 'f', d.done - d.tombs) end
      if d.g ~= '' then groups[d.g] = (groups[d.g] or 0) - d.done end
      if d.tombs > 0 then tombs[#tombs + 1] = base end
    end
    if d and d.polls > 0 then
      add(d.key, d.K, -d.polls)
      add(d.key, d.k, d.polls)
    end
  end
  for key, l in pairs(sums) do
    for f, delta in pairs(l) do
      local r = quickcount(key, f, delta)
      if f == 'f' then
        local q = sub(key, #P + 3)
        if r > qcfg(q).keep then call('SADD', P .. 'over', q) end
      end
    end
  end
  for _, g in ipairs(sumup(P .. 'g', groups)) do
    if call('ZSCORE', P .. 'ag', g) then publish('g|' .. g) end
  end
  if #tombs > 0 then
    local have, set, gone = call('HMGET', P .. 'lr', unpack(tombs)), {}, {}
    for i = 1, #tombs do
      local left = tonumber(have[i] or '0') - QDEF[tombs[i]].tombs
      if left > 0 then
        set[#set + 1], set[#set + 2] = tombs[i], fmt('%d', left)
      else
        gone[#gone + 1] = tombs[i]
      end
    end
    if #set > 0 then call('HSET', P .. 'lr', unpack(set)) end
    if #gone > 0 then
      call('HDEL', P .. 'lr', unpack(gone))
      call('HDEL', P .. 'ld', unpack(gone))
    end
  end
  if #qended > 0 and call('EXISTS', P .. 'aw') == 1 then
    local s = call('ZMSCORE', P .. 'aw', unpack(qended))
    for i = 1, #qended do
      if s[i] then publish('e|' .. qended[i]) end
    end
  end
  qL, qset, qtomb, qz, qfin, qline, qended, qx, qxl, QDEF = {}, {}, {}, {}, {}, {}, {}, {}, {}, {}
  quickrelease()
  if LM then LM.finish() end
end
