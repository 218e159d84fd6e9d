-- want.lua: want(q, lane, max, turn, suspect, types) serves one want of a claim: it picks one invocation after another, and then moves what it
-- picked out of the lines and into the leases. It answers: granted, why no more, when that may change in ms, and the key of a limit.
local worker, nonce, bytes = ARGV[1], ARGV[2], tonumber(ARGV[5])
local free = {i = tonumber(ARGV[3]), k = tonumber(ARGV[4])}
local MOST = 300         -- commands that one call hands out
local T0 = false         -- the token before the first of this call
local throttles          -- whether some rate is throttled
local items = 0          -- commands handed out so far
local suspected = false  -- one suspect for each call
local PLAIN = {}         -- the first byte of flags of records that need no second look
for _, f in ipairs({0, 1, 2, 3, 128, 129, 130, 131}) do PLAIN[f], PLAIN[f + 4] = true, true end

-- ready is called before the first want.
local function ready()
  throttles = call('EXISTS', P .. 'th') == 1
  runs = fmt('%d', run)
end

local function count(k, f, d)
  local r = call('HINCRBY', k, f, d)
  if r <= 0 then
    call('HDEL', k, f)
  elseif r == d then
    call('SADD', P .. 'qs', sub(k, #P + 3))
  end
end

-- size is what a record adds to the reply, with its blobs in keys of their own.
local function size(s)
  local f0, n = byte(s, 16), #s
  if band(f0, 16) ~= 0 then n = n + sunpack('<I4', s, #s - 3) end
  if band(f0, 32) ~= 0 then
    local ok, c = pcall(lib().decode, '', s)
    if ok then n = n + (c.sx or 0) end
  end
  return n
end

-- timed notes what a command with times leaves and enters when it is leased; false if its time is over, or cannot be read.
local function timed(id, s, f0)
  local ok, sb, dl, starts = pcall(times, s, f0)
  if not ok or dl ~= 0 and wall >= dl or sb ~= 0 and starts == 0 and wall >= sb then return false end
  if dl ~= 0 or sb ~= 0 and starts == 0 then w.xrem[#w.xrem + 1] = id end
  if dl ~= 0 then w.xladd[#w.xladd + 1], w.xladd[#w.xladd + 2] = dl, id end
  return true
end

-- room is how many more invocations of a type its rooms have places for; nil if it has none.
local function room(t)
  local n
  for _, r in ipairs(t.rooms or {}) do n = min(n or r.left, r.left) end
  return n
end

-- seat takes so many places of the rooms of a type.
local function seat(t, k)
  for _, r in ipairs(t.rooms or {}) do r.left = r.left - k end
end

-- plain takes as many first commands of L as it can, one for each invocation; the caller has seen that nothing competes with it.
local function plain(L)
  local t, k, rest = L.t, 0, nil
  local most = min(w.n - w.granted, MOST - items)
  if t.rooms then most = min(most, room(t)) end
  if limited then
    rest = w.lane == 'k' and L.A.rest or ''
    if not (L.A.easy and spare >= most * L.A.cost) then most = LM.free(L, most) end
  end
  touch(L)
  while k < most and head(L, false) do
    local ids, rec, i = L.ids, L.rec, L.i
    local from, to = i, min(L.n, i + most - k - 1)
    local g = #gids
    while i <= to do
      local s = rec[i] or ''
      local z = #s
      local v, st, _, _, _, _, _, _, _, _, _, _, _, _, _, f0 = byte(s, 1, 16)
      if v ~= 1 or st ~= w.status or z < 44 or PLAIN[f0] == nil or items > 0 and bytes < z or limited and (byte(s, 18) >= 128 or rest ~= '') and LM.kept(s) ~= rest then break end
      local id = ids[i]
      if band(f0, 4) ~= 0 and not timed(id, s, f0) then break end
      bytes, items, g = bytes - z, items + 1, g + 1
      gids[g], grecs[g] = id, s
      i, k = i + 1, k + 1
    end
    L.i, L.taken = i, L.taken + i - from
    if not L.whole then
      for j = from, i - 1 do L.out[#L.out + 1] = ids[j] end
    end
    if limited and i > from then
      LM.joinall(L, ids, from, i - 1)
      local tail = L.A.tail ~= '' and L.A.tail or nil
      for j = #gids - (i - from) + 1, #gids do tails[j] = tail end
    end
    if i <= to then break end -- the slow way goes on with this one
  end
  if k > 0 then
    w.granted = w.granted + k
    seat(t, k)
    w.bytype[t] = (w.bytype[t] or 0) + k
    addrun(w.lane == 'i' and 0 or 1, L.cl, 1, k, sub(L.line, 1, 16))
  end
end

-- grant takes up to a batch of commands from L for one invocation.
local function grant(L, ls)
  local t, cl, k = L.t, L.cl, 0
  local batch = t.batch
  if cl == 2 or cl == 5 then batch, suspected = 1, true end
  touch(L)
  while k < batch do
    if k > 0 and not head(L, (#ls > 1 or w.scored) and #ls * w.width) then break end
    local s = L.rec[L.i]
    local z = size(s)
    if k > 0 and (bytes < z or items >= MOST) then break end
    if k > 0 and limited and spare < L.A.cost and LM.stop(L, true) then break end
    local id, f0 = L.ids[L.i], byte(s, 16)
    bytes, k, items = bytes - z, k + 1, items + 1
    L.i, L.taken = L.i + 1, L.taken + 1
    if not L.whole then L.out[#L.out + 1] = id end
    local g = #gids + 1
    gids[g], grecs[g] = id, s
    if limited then
      local A = L.A
      local tail = A.tail
      if tail == '' then tail = nil end
      if spare >= A.cost and A.easy and cl ~= 3 and cl ~= 5 and byte(s, 18) < 128 and (w.lane == 'i' or A.rest == '') then -- no limit can stop it
        LM.enlist(A, id)
        spare, tails[g] = spare - A.cost, tail
      else
        local t = LM.join(L, id, s, k == 1)
        tails[g] = t
        if t ~= tail then odd[#odd + 1] = g end
      end
    end
    if band(f0, 12) ~= 0 then
      w.xrem[#w.xrem + 1] = id
      if isvisit(cl) then w.asked[#w.asked + 1] = id end
      if band(f0, 4) ~= 0 then
        local _, dl = times(s, f0)
        if dl ~= 0 then w.xladd[#w.xladd + 1], w.xladd[#w.xladd + 2] = dl, id end
      end
    end
  end
  w.granted = w.granted + 1
  if t.rooms and not isvisit(cl) then seat(t, 1) end
  w.bytype[t] = (w.bytype[t] or 0) + k
  addrun(w.lane == 'i' and 0 or 1, cl, batch, k, sub(L.line, 1, 16))
end

-- token takes a token of the type's throttled rate and of the lane's rate, both or none; a cancel visit does not wait for them. It answers
-- nothing, or which of them has none: 3 the lane's, 4 the type's.
local function token(t, cl, R)
  if isvisit(cl) then
    if t.th then t.th.bucket, t.dirty = force(t.th.bucket, throttlenow(t.th), 1), true end
    R.bucket = force(R.bucket, R.limit, R.burst)
    return
  end
  local tb, got, wait
  if t.th and throttlegone(t.th) then
    call('HDEL', P .. 'th', t.thkey)
    t.th = nil
  end
  if t.th then
    tb, got, wait = take(t.th.bucket, throttlenow(t.th), 1, 1)
    if got == 0 then
      t.th.bucket, t.dirty = tb, true
      soon(wait)
      return 4
    end
  end
  R.bucket, got, wait = take(R.bucket, R.limit, R.burst, 1)
  if got == 0 then
    soon(wait)
    return 3
  end
  if t.th then t.th.bucket, t.dirty = tb, true end
end

-- lease moves what was picked into the leases.
local function leaseall()
  local n, first, m = P .. 'n|' .. w.q, w.first, #gids - w.first + 1
  if m == 0 then return end
  local T = call('HINCRBY', KEYS[1], 'tok', m) - m
  T0 = T0 or T
  local tail = '.' .. nonce .. ' ' .. worker .. ' ' .. fmt('%d', lease)
  local zl, th, til = {}, {}, fmt('%d', lease + ceil(vns / 1e6))
  for i = 1, m do
    local j, id = i * 2, gids[first + i - 1]
    zl[j - 1], zl[j] = til, id
    th[j - 1], th[j] = id, decimal(T + i) .. tail .. (tails[first + i - 1] or '')
  end
  zadd(P .. 'L', leases, zl)
  hset(P .. 'T', leases, th)
  leases = leases + m
  if #w.xrem > 0 then call('ZREM', P .. 'x', unpack(w.xrem)) end
  if #w.asked > 0 then call('SADD', P .. 'cx', unpack(w.asked)) end
  if #w.xladd > 0 then call('ZADD', P .. 'xl', unpack(w.xladd)) end
  local total = 0
  for t, k in pairs(w.bytype) do
    count(n, w.lane .. t.ty, -k)
    count(n, (w.lane == 'i' and 'I' or 'K') .. t.ty, k)
    total = total + k
  end
  if w.lane == 'i' then count(n, 'p', -total) end
end

-- reopened is told of a line that is closed no more: a line of this want joins the others.
local function reopened(F)
  if F.q ~= w.q or F.lane ~= w.lane then return end
  local L = w.byline[F.line]
  if L then
    if w.isrefused[L] then -- not before the next grant
      w.back[#w.back + 1] = L
      return
    end
  else
    local t
    for _, u in ipairs(w.types) do
      if u.ty == F.ty then t = u end
    end
    local s = t and F.head
    if not s or w.lane == 'k' and tonumber(s) > run then return end
    local cl = F.code == '6' and 2 or tonumber(F.code)
    if not w.classes[cl] then return end
    L = newline(F.line, openkey(w.q, w.lane, F.code, F.ty), t, tonumber(s), cl)
    w.byline[F.line] = L
    LM.prepareone(L)
    touch(L)
  end
  if w.classes[L.cl] then w.insert(w.classes[L.cl], L) end
end

-- anew lets lines that limits have stopped before the last grant be tested again, if they have been opened.
local function anew()
  local back = w.back
  w.back = {}
  for i = 1, #back do
    local L = back[i]
    if w.isrefused[L] and not LM.shut(L.line) then
      w.isrefused[L], full[L] = nil, nil
      w.insert(w.classes[L.cl], L)
    end
  end
end

-- holders says whether commands of the want hold slots of scope command since their workers were lost: there are lines of their own for them.
local function holders()
  local ks = {}
  for i, t in ipairs(w.types) do ks[2 * i - 1], ks[2 * i] = openkey(w.q, 'i', 4, t.ty), openkey(w.q, 'i', 6, t.ty) end
  return #ks > 0 and call('EXISTS', unpack(ks)) > 0
end

local function want(q, lane, wmax, turn, suspect, types)
  local Q, li = qcfg(q), lane == 'i' and 1 or 2
  local mode = Q.pause
  if Q.til ~= 0 and wall >= Q.til then mode = 0 end
  local visits = turn < 0
  local stopped = visits or mode == 2 or mode == 1 and lane == 'i'
  w = {q = q, lane = lane, status = li, n = min(wmax, free[lane]), granted = 0, types = types, why = 0, next = 0, lines = {},
    first = #gids + 1, bytype = {}, xrem = {}, xladd = {}, asked = {}, byline = {}, isrefused = {}, back = {},
    fair = Q.fair, scored = limited or Q.fair, width = 1}
  if w.n <= 0 then return 0, 0, 0 end
  if limited then
    lim()
    w.holders = lane == 'i' and (LM.scoped or not LM.calm) and holders()
  end
  local R = {limit = Q.rate[li], burst = Q.burst[li], bucket = 0}
  if R.limit > 0 then R.bucket = tonumber(call('HGET', P .. 'rt', q .. '|' .. lane) or '0') end
  local bucket0, throttled, newly0 = R.bucket, false, newly
  if throttles then
    for _, t in ipairs(types) do
      t.thkey = q .. '|' .. lane .. '|' .. t.ty
      local s = call('HGET', P .. 'th', t.thkey)
      if s then t.th = throttle(s) end
    end
  end
  local open, front, without, remove, fair = open, front, without, remove, Q.fair and fairly()
  w.insert = insert
  if fair then
    open, front, without, remove, w.insert = fair.open, fair.front, fair.without, fair.remove, fair.insert
    fair.begin()
  end
  -- the classes that may be served: cancel visits, alone those of suspects; then a suspect alone; then re-runs and the others in turn
  local C, competing = {[0] = not stopped and open(0)}, R.limit > 0 or throttles or stopped
  if lane == 'k' then
    C[3] = open(3)
    C[5] = suspect and not suspected and open(5)
  elseif not stopped then
    C[1], C[4] = open(1), w.holders and open(4)
  end
  C[2] = not stopped and suspect and not suspected and open(2)
  if limited then
    w.classes = C
    LM.onopen = reopened
  end
  for _, cl in ipairs({1, 2, 3, 4, 5}) do competing = competing or C[cl] and #C[cl] > 0 end
  if not competing and not fair and #C[0] == 1 and C[0][1].t.batch == 1 then plain(C[0][1]) end
  while w.granted < w.n do
    local L = front(C[3])
    if not L and not suspected then L = front(C[5]) or front(C[2]) end
    L = L or front(C[4])
    if not L then
      L = front(C[0])
      if C[1] and (not L or (turn + w.granted) % 4 == 3) then L = front(C[1]) or L end
    end
    if not L then break end
    local t, cl = L.t, L.cl
    if t.rooms and not isvisit(cl) and room(t) <= 0 then
      C[cl] = without(C[cl], t)
    elseif items > 0 and (bytes < size(L.rec[L.i]) or items >= MOST) then
      w.why = 5
      break
    elseif limited and spare < L.A.cost and LM.stop(L) then -- others may go on
      touch(L)
      w.isrefused[L], w.byline[L.line] = true, L
      remove(C[cl], L)
    else
      local none = token(t, cl, R)
      if none == 3 then
        w.why = 3
        break
      elseif none then -- other types may go on
        throttled = true
        C[cl] = without(C[cl], t)
      else
        grant(L, C[cl])
        if fair then fair.served(L) end
        if #w.back > 0 then anew() end
        if full[L] then -- it has what its limit leaves
          w.isrefused[L] = true
          remove(C[cl], L)
        end
      end
    end
  end
  if w.granted >= w.n then
    w.why = 0
  elseif w.why == 0 then
    w.why = stopped and not visits and 2 or throttled and 4 or 1
    if w.why == 1 and w.cut and newly > newly0 then w.why = 5 end -- limits stopped lines that it saw first, and there are others
    if w.why == 2 and Q.til ~= 0 then soon(Q.til - wall) end
  end
  -- picked: write
  if limited then
    LM.hints()
    LM.onopen = false
  end
  leaseall()
  closelines()
  if fair then fair.write() end
  if w.building and w.why == 1 then w.why = 5 end
  local key
  if limited then
    LM.finish()
    if w.why == 1 and not visits and LM.anyfiled() then
      local next
      key, next = LM.waiting(q, lane, types)
      if key then
        w.why = 6
        if next then soon(next) end
      end
    end
  end
  if R.bucket ~= bucket0 then call('HSET', P .. 'rt', q .. '|' .. lane, fmt('%.17g', R.bucket)) end
  for _, t in ipairs(types) do
    if t.dirty and t.th then call('HSET', P .. 'th', t.thkey, packthrottle(t.th)) end
  end
  free[lane] = free[lane] - w.granted
  return w.granted, w.why, w.next, key
end
