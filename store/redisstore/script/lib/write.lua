-- write.lua: decisions collect writes here; flush makes them, one variadic command for each key.
local wset, wdel, wtomb = {}, {}, {}          -- MSET pairs, DEL keys, tombstones by when they go
local wzr, wza, whs, whd, wsr, wsa = {}, {}, {}, {}, {}, {} -- by key: ZREM, ZADD, HSET, HDEL, SREM, SADD
local whi = {}                                -- by key: field -> delta
local touched = {}                            -- line -> what heads() needs
local newdef = {}                             -- base -> definition of a line that may be new
local ended, wakes = {}, {}                   -- ids that ended, wake-ups

local function hdel(k, f) whd[P .. k] = whd[P .. k] or {} table.insert(whd[P .. k], f) end

local function add1(t, k, a)
  local l = t[k]
  if not l then t[k] = {a} else l[#l + 1] = a end
end

local function add2(t, k, a, b)
  local l = t[k]
  if not l then t[k] = {a, b} else
    local n = #l
    l[n + 1], l[n + 2] = a, b
  end
end

local function incr(k, f, d)
  local l = whi[k]
  if not l then whi[k] = {[f] = d} else l[f] = (l[f] or 0) + d end
end

local function zrem(k, m) add1(wzr, P .. k, m) end
local function zadd(k, s, m) add2(wza, P .. k, s, m) end

local function sadd(k, m) add1(wsa, P .. k, m) end
local function srem(k, m) add1(wsr, P .. k, m) end

local function wake(msg) wakes[msg] = true end

local function vcall(cmd, key, l)
  local n = #l
  if n <= 4000 then return call(cmd, key, unpack(l)) end
  for i = 1, n, 4000 do call(cmd, key, unpack(l, i, min(i + 3999, n))) end
end

-- heads brings the open lines up to date with what now stands at the head of each touched line.
local function heads()
  local polled, M = {}, limited and lim()
  if M and not M.anyfiled() then M = nil end
  if M then
    local lines = {}
    for line in pairs(touched) do lines[#lines + 1] = line end
    M.load(lines)
    local fs = {}
    for i = 1, #lines do fs[#fs + 1] = M.get(lines[i]) end
    M.states(fs)
  end
  for line, t in pairs(touched) do
    if t.lane == 'k' then polled[t.open] = true end
    local h = call('ZRANGE', P .. 'l|' .. line, 0, 0, 'WITHSCORES')
    local shut = M and M.placed(line, h[2]) -- also of a line that another of this step has opened
    if qcfg(t.q).fair then
      lim().fairset(sub(t.open, #P + 3), t.q, t.lane, t.g, line, not shut and h[2] or nil)
    end
    local F = M and not h[2] and M.get(line)
    if F then M.unfile(F) end
    if shut and h[2] then
      call('ZADD', t.open, '-' .. h[2], line)
    elseif not h[2] then
      call('ZREM', t.open, line)
    elseif call('ZADD', t.open, h[2], line) == 1 and (t.lane == 'i' or tonumber(h[2]) <= run) and call('ZCOUNT', t.open, 0, '+inf') == 1 then
      wake('w|' .. t.lane .. '|' .. t.q)
    end
  end
  for key in pairs(polled) do nextpoll(key) end
  touched = {}
end

local function counters()
  local l = whi[P .. 'lr']
  if l then
    for base, d in pairs(l) do
      if d ~= 0 then
        local r = call('HINCRBY', P .. 'lr', base, d)
        if r <= 0 then
          call('HDEL', P .. 'lr', base)
          call('HDEL', P .. 'ld', base)
        elseif r == d and newdef[base] then
          call('HSET', P .. 'ld', base, newdef[base])
        end
      end
    end
    whi[P .. 'lr'] = nil
  end
  l = whi[P .. 'g']
  if l then
    for _, g in ipairs(sumup(P .. 'g', l)) do
      if call('ZSCORE', P .. 'ag', g) then wake('g|' .. g) end
    end
    whi[P .. 'g'] = nil
  end
  local skip = #P + 3
  for k, l in pairs(whi) do -- n|queue
    local q = sub(k, skip)
    for f, d in pairs(l) do
      if d ~= 0 then
        local r = call('HINCRBY', k, f, d)
        if r <= 0 then
          call('HDEL', k, f)
          if call('EXISTS', k) == 0 then call('SREM', P .. 'qs', q) end
        elseif r == d then
          call('SADD', P .. 'qs', q)
        end
        if f == 'f' and d > 0 and r > qcfg(q).keep then call('SADD', P .. 'over', q) end
      end
    end
  end
  whi = {}
end

local function flush()
  if #wdel > 0 then
    for i = 1, #wdel, 4000 do call('DEL', unpack(wdel, i, min(i + 3999, #wdel))) end
    wdel = {}
  end
  if #wset > 0 then
    for i = 1, #wset, 4000 do call('MSET', unpack(wset, i, min(i + 3999, #wset))) end
    wset = {}
  end
  for at, ids in pairs(wtomb) do bury(at, ids) end
  wtomb = {}
  for k, l in pairs(wzr) do vcall('ZREM', k, l) end
  for k, l in pairs(wza) do vcall('ZADD', k, l) end
  for k, l in pairs(whd) do vcall('HDEL', k, l) end
  for k, l in pairs(whs) do vcall('HSET', k, l) end
  for k, l in pairs(wsr) do vcall('SREM', k, l) end
  for k, l in pairs(wsa) do vcall('SADD', k, l) end
  wzr, wza, whs, whd, wsr, wsa = {}, {}, {}, {}, {}, {}
  heads()
  counters()
  newdef = {}
  if #ended > 0 and call('EXISTS', P .. 'aw') == 1 then
    local s = vcall('ZMSCORE', P .. 'aw', ended)
    for i = 1, #ended do
      if s[i] then wake('e|' .. ended[i]) end
    end
  end
  ended = {}
  if LM then LM.finish() end
  for m in pairs(wakes) do publish(m) end
  wakes = {}
end
