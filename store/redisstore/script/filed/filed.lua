-- filed.lua: the lines that wait under a key, oldest first. Decisions are made on what was read; writelines writes what came of them.
local function bucket(K)
  if not K.b then K.b = tonumber(call('HGET', P .. 'lb', K.k) or '0') end
  return K.b
end

-- spend takes a token of a rate.
local function spend(K)
  K.b, K.spent = force(bucket(K), K.l.r, K.l.u), true
  mark(K)
end

-- quiet says whether only a step that makes room can change what a key says: its lines need no re-test of their own, see sweep in retest.lua.
local function quiet(K)
  local l = K.l
  return l and not l.r and not l.t and not l.c
end

-- room says whether a key could admit a command of that cost now, and how long until time alone may change it.
local function room(K, cost)
  local l = K.l
  if not l or l.c then return true, 0 end
  if not l.r then return (K.M.by and K.M.by[K.v] or total(K.M)) + cost <= K.max or members(K) + cost <= K.max, K.wait end
  if K.closed then return false, K.wait end
  local _, got, next = take(bucket(K), l.r, l.u, 1)
  if K.wait > 0 and (next <= 0 or K.wait < next) then next = K.wait end
  return got > 0, next
end

-- never says whether a key, as it is, could not admit that cost even without members.
local function never(K, cost)
  local l = K.l
  return l ~= nil and not l.r and not l.c and cost > K.max
end

-- setcount reads how many lines a key has: a number; behind 1, if it is known which it is, its name, its cost (a byte) and where it stands open.
local function setcount(K, s)
  K.c, K.alone, K.lf = 0, nil, s
  if not s then return end
  if byte(s, 2) == 32 then K.c, K.alone = 1, sub(s, 3, 20) else K.c = tonumber(s) end
end

local function count(K)
  if not K.c then setcount(K, anyfiled() and call('HGET', P .. 'lf|' .. K.name, K.v)) end
  return K.c
end

-- since reads since when room stands under a key.
local function since(s) return s and tonumber(string.match(s, '^%d+')) or 0 end

-- look reads what is filed under keys, and since when room stands there, all at once.
local function look(ks)
  local by, names, some, stand = {}, {}, {}, {}
  for i = 1, #ks do
    local K = ks[i]
    if not K.c then
      local l = by[K.name]
      if not l then
        l = {}
        by[K.name], names[K.name] = l, {}
      end
      l[#l + 1], names[K.name][#l + 1] = K, K.v
      K.c = 0 -- a key that comes twice
    end
  end
  for name, l in pairs(by) do
    local s = mget('HMGET', P .. 'lf|' .. name, names[name])
    for i = 1, #l do
      local K = l[i]
      setcount(K, s[i])
      if K.c > 0 then some[#some + 1] = K end
    end
  end
  if #some == 0 then return end
  if standing == nil then standing = call('EXISTS', P .. 'fs') == 1 end
  if standing then
    for i = 1, #some do stand[i] = some[i].k end
    local s = mget('HMGET', P .. 'fs', stand)
    for i = 1, #some do some[i].stood = since(s[i]) end
  end
end

-- loadkeys is look for the keys of the lines of a want, which are open.
local function loadkeys(ls)
  local names, ks = {}, {}
  for i = 1, #ls do
    local own = keysof(ls[i].A)
    for j = 1, #own do ks[#ks + 1] = own[j] end
  end
  look(ks)
  for i = 1, #ls do
    local L = ls[i]
    local own, alone = L.A.keys, false
    for j = 1, #own do alone = alone or own[j].alone == L.line end
    if not alone then names[#names + 1] = L.line end -- what is filed of the others need not be known yet
  end
  load(names)
  for i = 1, #ls do
    local F = LINES[ls[i].line]
    if F and F.stored == nil and not shutnow[F.line] then F.open, F.stored, F.head = true, true, ls[i].s end
  end
end

-- A key's queue is read in pieces; each entry stands for one filing of a line.
local function piece(K)
  local r = call('ZRANGE', P .. 'fl|' .. K.k, K.off, K.off + 15, 'WITHSCORES')
  for i = 1, #r, 2 do
    local F = LINES[r[i]]
    if not (F == false or F and (F.key ~= K.k or F.anew)) then
      local e = {line = r[i]}
      if tonumber(r[i + 1]) >= NEVER then K.all = true end -- those behind it are looked at by their re-tests
      if F then F.e = e end
      K.queue[#K.queue + 1] = e
    end
  end
  K.off = K.off + #r / 2
  if #r < 32 then K.all = true end
  if K.all then
    for i = 1, #K.tail do K.queue[#K.queue + 1] = K.tail[i] end
    K.tail = nil
  end
end

local function enqueue(K, F)
  F.e = {line = F.line}
  local l = K.tail or K.queue
  l[#l + 1] = F.e
end

local function queue(K)
  if K.queue then return end
  K.queue, K.tail, K.first, K.off, K.all = {}, {}, 1, 0, false
  piece(K)
  if K.tail then partial[#partial + 1] = K end
  local F = K.alone and LINES[K.alone]
  if F and F.anew then enqueue(K, F) end
end

-- nobody says that no line is filed under a key.
local function nobody(K) return (K.c or count(K)) == 0 end

local function stood(K)
  if not K.stood then
    if standing == nil then standing = call('EXISTS', P .. 'fs') == 1 end
    K.stood = standing and since(call('HGET', P .. 'fs', K.k)) or 0
  end
  return K.stood
end

local function setstood(K, t)
  if stood(K) ~= t then
    K.stood, stoods[#stoods + 1] = t, K
  end
end

-- overdue says whether room has stood for so long that whoever can use it may have it.
local function overdue(K)
  local t = stood(K)
  return t ~= 0 and run - t >= RETEST
end

-- claimable says whether a line has something to run, as far as its head shows, in a queue that is not paused for it.
local function claimable(F)
  if F.can == nil then
    local h = state(F).head
    F.can = h and (F.lane == 'i' or h <= run)
    local Q = qcfg(F.q)
    if (Q.til == 0 or wall < Q.til) and (Q.pause == 2 or Q.pause == 1 and F.lane == 'i') then F.can = false end
  end
  return F.can
end

local function recount(K, d)
  count(K)
  K.c = K.c + d
  stirred = stirred or {}
  stirred[K.k] = true
  if not K.counted then K.counted, counted[#counted + 1] = true, K end
end

-- remove takes a line from its key: it is open. Nobody else is told.
local function remove(F)
  local K, was = keyof(F.key), state(F).open
  recount(K, -1)
  if K.alone == F.line then K.alone = nil end
  F.key, F.anew, F.open = nil, nil, true
  change(F)
  if LM.onopen and not was then LM.onopen(F) end
end

-- open lets a line take room. If the room stands from now on, that says when it is tested again.
local function open(F, K)
  F.open, F.woken = true, true
  if not (quiet(K) and K.stood == run) then F.retest = run + RETEST end
  change(F)
  if LM.onopen then LM.onopen(F) end
end

-- fit says whether F may have room of a key: nil if it has no command to run, or stands in a paused queue, and so is filed no more; false if it never fits.
local function fit(F, K)
  if not claimable(F) then
    remove(F)
    return nil
  end
  local n = never(K, F.cost)
  if n ~= F.never then
    F.never = n
    change(F, true)
  end
  return not n
end

-- front is the line that room of the key belongs to, or nil: the oldest that may have room.
local function front(K)
  if nobody(K) then return nil end
  local F = K.alone and not K.queue and get(K.alone)
  if F then
    if fit(F, K) then return F end
    setstood(K, 0)
    return nil
  end
  queue(K)
  local i, looked = K.first, 0
  while looked < BOUND do
    local e = K.queue[i]
    if not e then
      if K.all then
        setstood(K, 0)
        return nil
      end
      piece(K)
    else
      F = get(e.line)
      if not F or F.key ~= K.k or F.e and F.e ~= e then -- it has left
        if i == K.first then K.first = i + 1 end
      else
        F.e, looked = e, looked + 1
        if fit(F, K) then return F end
      end
      i = i + 1
    end
  end
end

-- hint opens the oldest line filed under a key that has room for it. Nothing depends on it.
local function hint(K)
  if nobody(K) then return end
  local F = front(K)
  if not F then return end
  if not room(K, F.cost) then
    setstood(K, 0)
    return
  end
  if stood(K) == 0 then setstood(K, run) end
  if not F.open then open(F, K) end
end

-- behind says whether older lines are filed under the key, to whom its room belongs.
local function behind(K, line)
  if nobody(K) then return false end
  local f = front(K)
  if not f or f.line == line or overdue(K) then return false end
  local F = get(line)
  return not (F and F.key == K.k and F.open)
end

-- vacated lets whoever stood behind a line that has left a key have its turn.
local function vacated(K)
  if nobody(K) then setstood(K, 0) else hint(K) end
end

local function unfile(F)
  local K = keyof(F.key)
  remove(F)
  vacated(K)
end

local function retestat(wait)
  local at = floor((run + RETEST) / GRID) * GRID
  if wait > 0 then at = min(at, run + ceil(wait)) end
  return at
end

-- file puts a line under the key that stopped it: at the tail, or where it stands there already. It leaves any other key.
local function file(line, A, K, wait, head)
  local F = get(line)
  if F and F.key ~= K.k then
    unfile(F)
    F = nil
  end
  if not F then
    local n = count(K)
    F = LINES[line] or {line = line, lane = sub(line, 17, 17), code = sub(line, 18, 18), q = string.match(A.raw, '^[^ ]*'), ty = string.match(A.raw, '^[^ ]* ([^ ]*)'), cost = A.cost, stored = true, head = head}
    if not some then first = true end
    LINES[line], some = F, true
    if n == 0 and F.was == K.k then -- it is the only one once more
      K.alone = line
      if K.queue then enqueue(K, F) end
    else
      numbers = (numbers or tonumber(call('HGET', KEYS[1], 'fseq') or '0')) + 1
      numbered, F.seq = true, numbers
      if n > 0 then queue(K) end
      F.anew = true
      if K.queue then enqueue(K, F) end
      K.alone = n == 0 and line or nil
    end
    F.key, F.since = K.k, run
    if not F.was then newly = newly + 1 end
    recount(K, 1)
  end
  spare = 0 -- its room is nobody else's
  F.open, F.woken, F.can, F.ver = false, nil, true, cv
  F.retest = not quiet(K) and retestat(wait) or nil
  F.never = never(K, F.cost)
  change(F, true)
end
