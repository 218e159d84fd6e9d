-- filed.lua: the lines that wait under a key, oldest first. Decisions are made on what was read; writelines writes what came of them. A filed line
-- stands among the open ones at its head's score if it is open, and below 0 as far, out of sight of claims, if it is closed.
local RETEST = 1000              -- ms: see left.lua
local GRID = 50                  -- ms: re-tests that nothing is to be expected of are made together
local NEVER = 1125899906842624   -- lines that never fit stand behind all others
local LINES, changed = {}, {}    -- filed lines by name, false if it is not filed; those that writelines has to look at
local counted, stoods = {}, {}   -- keys of which the number of lines may change, and since when room stands
local numbers, numbered          -- filings so far
local partial = {}               -- keys of which a part of the queue was read
local first                      -- no line was filed before
local standing                   -- whether room stands under any key
local keyof, mark, keyin, keysof, members, waits = LM.keyof, LM.mark, LM.keyin, LM.keysof, LM.members, LM.waits
LM.alreadyshut(shutnow)

local function bucket(K)
  if not K.b then K.b = tonumber(call('HGET', P .. 'lb', K.k) or '0') end
  return K.b
end

-- spend takes a token of a rate.
local function spend(K)
  K.b, K.spent = force(bucket(K), K.l.r, K.l.u), true
  mark(K)
end

-- quiet says whether only a step that makes room can change what a key says: its lines need no re-test of their own, see sweep.lua.
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

local function unpackline(line, s)
  local flags, seq, cost, ver, key, q, ty = sunpack('<BI6BI4I2c0Bc0Bc0', s)
  return {line = line, lane = sub(line, 17, 17), code = sub(line, 18, 18), since = nil, seq = seq, cost = cost, ver = ver, q = q, ty = ty,
    key = key, was = key, never = flags > 1, wasnever = flags > 1, -- as it is stored
    open = nil, stored = nil, head = nil, changed = nil, dirty = nil, retest = nil, can = nil, e = nil}
end

local function packline(F)
  return spack('<BI6BI4I2c0Bc0Bc0', F.never and 2 or 0, F.seq, F.cost, F.ver, #F.key, F.key, #F.q, F.q, #F.ty, F.ty)
end

-- load reads filed lines.
local function load(lines)
  local names = {}
  for i = 1, #lines do
    if LINES[lines[i]] == nil then names[#names + 1] = lines[i] end
  end
  if #names == 0 then return end
  local v = mget('HMGET', P .. 'fd', names)
  for i = 1, #names do LINES[names[i]] = v[i] and unpackline(names[i], v[i]) end
end

-- get is a line that is filed, or nil.
local function get(line)
  local F = LINES[line]
  if F == nil then
    local s = anyfiled() and call('HGET', P .. 'fd', line)
    F = s and unpackline(line, s)
    LINES[line] = F
  end
  if F and F.key then return F end
end

-- reclosed is told of a line that rejoin closes, the only one under k.
local function reclosed(line, k)
  shutnow[line] = true
  local F, K = LINES[line], KS[k]
  if F then F.open, F.stored = false, false end
  if K then K.stood = 0 end
end

local function nameof(F) return F.q .. '|' .. F.lane .. F.code .. '|' .. F.ty end

local function setstate(F, s)
  s = s and tonumber(s)
  F.stored = not shutnow[F.line] and (not s or s >= 0)
  F.head = s and (s < 0 and -s or s) or false
  if F.open == nil then F.open = F.stored end
end

-- states reads whether lines are open, and the scores of their heads.
local function states(fs)
  local by = {}
  for i = 1, #fs do
    local F = fs[i]
    if F.stored == nil then
      local name = nameof(F)
      local l = by[name]
      if l then l[#l + 1] = F else by[name] = {F} end
    end
  end
  for name, l in pairs(by) do
    local lines = {}
    for i = 1, #l do lines[i] = l[i].line end
    local s = mget('ZMSCORE', P .. 'o|' .. name, lines)
    for i = 1, #l do setstate(l[i], s[i]) end
  end
end

local function state(F)
  if F.stored == nil then setstate(F, call('ZSCORE', P .. 'o|' .. nameof(F), F.line)) end
  return F
end

local function shut(line)
  local F = get(line)
  return F ~= nil and not state(F).open
end

-- lower says that the head of a line may stand at s now. If the line is filed and closed, it is noted, and the answer is true.
local function lower(line, s)
  local F = get(line)
  if not F then return false end
  F.head = min(state(F).head or s, s)
  if F.open then return false end
  call('ZADD', P .. 'o|' .. nameof(F), 'GT', fmt('%d', -s), line)
  return true
end

-- change notes that something of a line is to be written; dirty, that it is the filing itself.
local function change(F, dirty)
  if not F.changed then F.changed, changed[#changed + 1] = true, F end
  F.dirty = F.dirty or dirty
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
