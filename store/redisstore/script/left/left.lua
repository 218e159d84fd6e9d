-- left.lua: ends of memberships, and what a claim asks where lines are filed, as far as no line but one stands under a key. Who waits for a key that
-- has lost members is looked at by finish, or at once.
local RETEST = 1000      -- ms: a filed line is tested again, and room may stand
local runs = fmt('%d', run)
local keyin, countof = LM.keyin, LM.countof
local again, unstood = {}, {} -- lines that were filed again, and when; keys under which room stands no more

local function keyof(k)
  local K = KS[k]
  if K then return K end
  limits()
  local p = string.find(k, '|', 1, true)
  local name = sub(k, 1, p - 1)
  local l = NAMES[name]
  if l and l.t and wall >= l.t then l = nil end
  return keyin(l, name, sub(k, p + 1))
end

local function mark(K)
  if not K.marked then K.marked, marked[#marked + 1] = true, K end
end

local function less(K, n)
  local M = K.M
  K.left = true
  mark(K)
  if M.by and M.by[K.v] then M.by[K.v] = M.by[K.v] - n end
  if M.n then M.n = M.n - n end
end

local function drop(K, id, cost)
  K.M.del = K.M.del or {}
  entries(K.M.del, K.v .. '|', id, cost)
  less(K, cost)
end

-- released ends the memberships of one text that the other does not have.
local function released(id, from, to)
  local h = holds(from)
  for i = 1, #h, 2 do
    if not held(to, h[i]) then drop(keyof(h[i]), id, h.cost) end
  end
end

-- stand notes that room stands under keys from now on: k, run, k, run, …
local function stand(ks)
  hset(P .. 'fs', #ks < 16 and 16 or call('HLEN', P .. 'fs'), ks)
  call('HSETNX', KEYS[1], 'fst', fmt('%d', run + RETEST))
end

-- openonly opens those lines, each the only one under its key, that stand in name: a list of value, line and cost. It answers the values at which
-- there is more to look at.
local function openonly(limit, most, name, l)
  local q, lane = string.match(name, '^([^|]*)|(.)')
  local Q, M, rest = qcfg(q), of(limit), {}
  local lines, moved, ks, n = {}, {}, {}, 0
  for i = 1, #l, 3 do lines[(i + 2) / 3] = l[i + 1] end
  local s = (Q.fair or Q.pause ~= 0) and {} or call('ZMSCORE', P .. 'o|' .. name, unpack(lines))
  local all = total(M)
  limit = limit .. '|'
  for i = 1, #lines do
    local v, cost = l[3 * i - 2], l[3 * i]
    local at = s[i]
    local head = at and byte(at) == 45 and sub(at, 2) -- it is closed
    if not head or lane == 'k' and tonumber(head) > run then
      rest[#rest + 1] = v
    elseif all + cost <= most or countof(M, v) + cost <= most then
      moved[n + 1], moved[n + 2], ks[n + 1], ks[n + 2], n = head, lines[i], limit .. v, runs, n + 2
    end
  end
  if n > 0 then
    call('ZADD', P .. 'o|' .. name, unpack(moved))
    if lane == 'k' then nextpoll(P .. 'o|' .. name) end
    stand(ks)
    publish('w|' .. lane .. '|' .. q)
  end
  return rest
end

-- release ends memberships: by limit what is stored of them, and by value how many they are.
local function release(gone)
  limits()
  for name, t in pairs(gone) do
    local l, M, vs = NAMES[name], of(name), t[2]
    if M.del then -- others leave it in the same call
      for i = 1, #t[1] do M.del[#M.del + 1] = t[1][i] end
    else
      M.del = t[1]
    end
    if LF or M.by or M.n or not l or l.r or l.c or l.t or l.v then
      for v, n in pairs(vs) do less(keyof(name .. '|' .. v), n) end
    else
      local values, ks, by = {}, {}, {}
      for v in pairs(vs) do values[#values + 1] = v end
      local lf = mget('HMGET', P .. 'lf|' .. name, values)
      for i = 1, #values do ks[i] = name .. '|' .. values[i] end
      local st = call('EXISTS', P .. 'fs') == 1 and mget('HMGET', P .. 'fs', ks) or {}
      for i = 1, #values do
        local s = lf[i]
        if s and byte(s, 2) == 32 and not st[i] then
          local o = sub(s, 22)
          local t = by[o]
          if not t then
            t = {}
            by[o] = t
          end
          local n = #t
          t[n + 1], t[n + 2], t[n + 3] = values[i], sub(s, 3, 20), byte(s, 21)
        elseif s then
          less(keyof(ks[i]), 0)
        end
      end
      for o, t in pairs(by) do
        local rest = openonly(name, l.m or 0, o, t)
        for i = 1, #rest do less(keyof(name .. '|' .. rest[i]), 0) end
      end
    end
  end
end

-- findsolo looks for lines of a want of which nothing but the number of members is to be known: under their only key no line is filed (2), or no other (1).
-- It answers the others.
local function findsolo(ls)
  local by, others, plain = {}, {}, {}
  for i = 1, #ls do
    local L = ls[i]
    local A = L.A
    local l = A[1]
    if #A == 2 and not (LF or l.r or l.c or l.t or l.v) then
      local t = by[l.n]
      if not t then
        t = {{}, {}}
        by[l.n] = t
      end
      local n = #t[1] + 1
      t[1][n], t[2][n] = L, A[2]
    else
      others[#others + 1] = L
    end
  end
  for name, t in pairs(by) do
    local lf = mget('HMGET', P .. 'lf|' .. name, t[2])
    for i = 1, #lf do
      local s, L = lf[i], t[1][i]
      if not s then
        plain[#plain + 1] = L
      elseif byte(s, 2) == 32 and sub(s, 3, 20) == L.line then
        solo[L] = 1
      else
        others[#others + 1] = L
      end
    end
  end
  if #plain > 0 then
    local lines = {}
    for i = 1, #plain do lines[i] = plain[i].line end
    local fd = mget('HMGET', P .. 'fd', lines)
    for i = 1, #plain do
      if fd[i] then others[#others + 1] = plain[i] else solo[plain[i]] = 2 end
    end
  end
  return others
end

-- rejoin prepares L, of which findsolo knows, for a grant. A line that was filed stays where it is if its key is full after that; else it has to leave it,
-- and the answer is false.
local function rejoin(L)
  if solo[L] == 2 then return true end
  local A = L.A
  local l, v = A[1], A[2]
  if L.t.batch > 1 or L.i > L.n or countof(of(l.n), v) + 2 * A.cost <= (l.m or 0) then return false end
  local n = #unstood
  full[L], again[2 * n + 1], again[2 * n + 2], unstood[n + 1] = true, L.line, runs, l.n .. '|' .. v
  if LF then LM.reclosed(L.line, l.n .. '|' .. v) end
  return true
end

-- waiting is the first key under which lines of a want are filed, and in how many ms the first of those is tested again.
local function waiting(q, lane, types)
  if not call('HGET', P .. 'fn', q .. '|' .. lane) then return nil end
  local lines = {}
  for _, t in ipairs(types) do
    for code = 0, 6 do
      local r = call('ZREVRANGEBYSCORE', openkey(q, lane, code, t.ty), '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 2)
      for i = 1, #r, 2 do
        if lane == 'i' or -tonumber(r[i + 1]) <= run then lines[#lines + 1] = r[i] end
      end
    end
  end
  if #lines == 0 then return nil end
  local fd, at, key, soonest = mget('HMGET', P .. 'fd', lines), mget('ZMSCORE', P .. 'fr', lines), nil, RETEST
  for i = 1, #lines do
    local _, _, _, _, k = sunpack('<BI6BI4I2c0', fd[i] or '\0\0\0\0\0\0\0\0\0\0\0\0\0\0')
    if k and k ~= '' then
      if not key or k < key then key = k end
      if at[i] then soonest = min(soonest, max(1, tonumber(at[i]) - run)) end
    end
  end
  return key, soonest
end

-- writeleft writes what became of lines of which findsolo knew.
local function writeleft()
  if #again == 0 then return end
  call('HSET', P .. 'ft', unpack(again))
  call('HDEL', P .. 'fs', unpack(unstood))
  again, unstood = {}, {}
end

-- alreadyshut names the lines that rejoin closes; the rest of what it did is written.
local function alreadyshut(t)
  for i = 1, #again, 2 do t[again[i]] = true end
  writeleft()
end
