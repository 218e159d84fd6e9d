-- filed.lua: the lines that wait under a key, oldest first. Decisions are made on what was read; flush writes what came of them.
local RETEST = 1000              -- ms: a filed line is tested again, and room may stand
local GRID = 50                  -- ms: re-tests that nothing is to be expected of are made together
local NEVER = 1125899906842624   -- lines that never fit stand behind all others
local LINES, changed = {}, {}    -- filed lines by name, false if it is not filed; those that flush has to write
local numbers, numbered          -- filings so far
local partial = {}               -- keys of which a part of the queue was read

-- put appends to the list of k in t.
local function put(t, k, a, b)
  local l = t[k]
  if not l then
    l = {}
    t[k] = l
  end
  l[#l + 1] = a
  if b then l[#l + 1] = b end
end

local function bucket(K)
  if not K.b then K.b = tonumber(call('HGET', P .. 'lb', K.k) or '0') end
  return K.b
end

-- spend takes a token of a rate.
local function spend(K)
  K.b, K.spent = force(bucket(K), K.l.r, K.l.u), true
  mark(K)
end

-- room says whether a key could admit a command of that cost now, and how long until time alone may change it.
local function room(K, cost)
  local l = K.l
  if not l or l.c then return true, 0 end
  if not l.r then return members(K) + cost <= K.max, K.wait end
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
  local F = {line = line, lane = sub(line, 17, 17), code = sub(line, 18, 18)}
  local flags
  flags, F.since, F.seq, F.cost, F.ver, F.key, F.q, F.ty = sunpack('<BI6I6BI4I2c0Bc0Bc0', s)
  F.opened, F.never = flags % 2 == 1, flags > 1
  F.was, F.shut, F.wasnever = F.key, not F.opened, F.never -- as it is stored
  return F
end

local function packline(F)
  local flags = (F.opened and 1 or 0) + (F.never and 2 or 0)
  return spack('<BI6I6BI4I2c0Bc0Bc0', flags, F.since, F.seq, F.cost, F.ver, #F.key, F.key, #F.q, F.q, #F.ty, F.ty)
end

-- load reads filed lines.
local function load(lines)
  local names = {}
  for i = 1, #lines do
    if LINES[lines[i]] == nil then names[#names + 1] = lines[i] end
  end
  if #names == 0 then return end
  local v = call('HMGET', P .. 'fd', unpack(names))
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

local function shut(line)
  local F = get(line)
  return F ~= nil and not F.opened
end

local function change(F)
  if not F.changed then F.changed, changed[#changed + 1] = true, F end
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

local function queue(K)
  if K.queue then return end
  K.queue, K.tail, K.first, K.off, K.all = {}, {}, 1, 0, false
  if anyfiled() then
    piece(K)
    if K.tail then partial[#partial + 1] = K end
  else
    K.all, K.tail = true, nil
  end
end

-- nobody says quickly that no line is filed under a key.
local function nobody(K)
  if not anyfiled() then return true end
  queue(K)
  return K.all and #K.queue == 0
end

local function stood(K)
  if not K.stood then K.stood = tonumber(call('HGET', P .. 'fs', K.k) or '0') end
  return K.stood
end

local function setstood(K, t)
  if stood(K) ~= t then
    K.stood, K.restood = t, true
    mark(K)
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
    local h = call('ZRANGE', P .. 'l|' .. F.line, 0, 0, 'WITHSCORES')
    F.can = h[2] ~= nil and (F.lane == 'i' or tonumber(h[2]) <= run)
    local Q = qcfg(F.q)
    if (Q.til == 0 or wall < Q.til) and (Q.pause == 2 or Q.pause == 1 and F.lane == 'i') then F.can = false end
  end
  return F.can
end

-- remove takes a line from its key: it is open. Nobody else is told.
local function remove(F)
  F.key, F.anew = nil, nil
  change(F)
  if LM.onopen and not F.opened then LM.onopen(F) end
end

local function open(F)
  F.opened, F.retest, F.woken = true, run + RETEST, true
  change(F)
  if LM.onopen then LM.onopen(F) end
end

-- front is the line that room of the key belongs to, or nil: the oldest. What has no command to run, or stands in a paused queue, is filed no
-- more; what never fits is passed by.
local function front(K)
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
      local F = get(e.line)
      if not F or F.key ~= K.k or F.e and F.e ~= e then -- it has left
        if i == K.first then K.first = i + 1 end
      else
        F.e, looked = e, looked + 1
        if not claimable(F) then
          remove(F)
        else
          local n = never(K, F.cost)
          if n ~= F.never then
            F.never = n
            change(F)
          end
          if not n then return F end
        end
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
  if not F.opened then open(F) end
end

-- behind says whether older lines are filed under the key, to whom its room belongs.
local function behind(K, line)
  if nobody(K) then return false end
  local f = front(K)
  if not f or f.line == line or overdue(K) then return false end
  local F = get(line)
  return not (F and F.key == K.k and F.opened)
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
local function file(line, A, K, wait)
  local F = get(line)
  if F and F.key ~= K.k then
    unfile(F)
    F = nil
  end
  if not F then
    queue(K)
    F = LINES[line] or {line = line, lane = sub(line, 17, 17), code = sub(line, 18, 18), q = A.q, ty = A.ty, cost = A.cost}
    numbers = (numbers or tonumber(call('HGET', KEYS[1], 'fseq') or '0')) + 1
    LINES[line], numbered, some = F, true, true
    F.key, F.since, F.seq, F.anew, F.e = K.k, run, numbers, true, {line = line}
    local l = K.tail or K.queue
    l[#l + 1] = F.e
  end
  F.opened, F.woken, F.can, F.ver, F.retest = false, nil, true, cv, retestat(wait)
  F.never = never(K, F.cost)
  change(F)
end

-- stopper says which key stops a command of a line, if one does, and how long until time alone may change that.
local function stopper(line, W, cost)
  for i = 1, #W do
    local K = W[i]
    local ok, wait = room(K, cost)
    if not ok then return K, wait end
    if behind(K, line) then return K, 0 end
  end
end

-- taken follows a grant from a line: what is left of it queues anew, and those who wait for the same keys have their turn.
local function taken(line, keys)
  local F = get(line)
  if F then unfile(F) end
  for i = 1, #keys do
    local K = keys[i]
    if not nobody(K) then
      setstood(K, 0)
      hint(K)
    end
  end
end

-- stopped says which key stops the next command of L and files the line.
local function stopped(L, more)
  local W = L.W
  if more and L.A.rates then
    W = {}
    for i = 1, #L.W do
      if not L.W[i].l.r then W[#W + 1] = L.W[i] end
    end
  end
  local K, wait = stopper(L.line, W, L.A.cost)
  if not K then return false end
  if not more then file(L.line, L.A, K, wait) end
  return true
end

-- crowded says whether lines are filed under the keys of L.
local function crowded(L)
  if get(L.line) then return true end
  for i = 1, #L.A do
    if not nobody(L.A[i]) then return true end
  end
end

-- waiting is the first key under which lines of a want are filed, and in how many ms the first of those is tested again.
local function waiting(q, lane, types)
  if not call('HGET', P .. 'fn', q .. '|' .. lane) then return nil end
  local lines = {}
  for _, t in ipairs(types) do
    for code = 0, 6 do
      local r = call('ZRANGE', P .. 'b|' .. q .. '|' .. lane .. code .. '|' .. t.ty, 0, 7, 'WITHSCORES')
      for i = 1, #r, 2 do
        if lane == 'i' or tonumber(r[i + 1]) <= run then lines[#lines + 1] = r[i] end
      end
    end
  end
  if #lines == 0 then return nil end
  load(lines)
  local at, key, soonest = call('ZMSCORE', P .. 'fr', unpack(lines)), nil, nil
  for i = 1, #lines do
    local F = get(lines[i])
    if F then
      if not key or F.key < key then key = F.key end
      local t = tonumber(at[i] or '0')
      if not soonest or t < soonest then soonest = t end
    end
  end
  return key, soonest and max(1, soonest - run)
end

-- release ends memberships: by key the ids, and their costs summed.
local function release(left)
  for k, l in pairs(left) do
    local K = keyof(k)
    mark(K)
    if K.del then
      for i = 1, #l do K.del[#K.del + 1] = l[i] end
    else
      K.del = l
    end
    K.left = true
    K.d = (K.d or 0) - l.cost
    if K.n then K.n = K.n - l.cost end
  end
end
