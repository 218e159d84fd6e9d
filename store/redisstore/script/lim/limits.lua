-- limits.lua: the limits of the configuration, the keys that they count by, and who is a member of them. A key is limit|value. What a lease or a
-- record says of memberships is a text, see holds.lua.
local LS, NAMES -- limits in the order in which they are tested, as config.go packs them, and by name
local KS, ABOUT = {}, {}
local marked, granted = {}, {}   -- keys that finish has to write; lines that were granted from
local some, calm                 -- whether any line is filed; nothing is left to be tidied up either
local filed, LF                  -- makes what only a key without room needs, see the folder filed; what it made
local turns, LT                  -- the same for fair turns, see the folder turn

local function limits()
  if not LS then
    LS, NAMES = limited and cmsgpack.unpack(limited) or {}, {}
    for i = 1, #LS do NAMES[LS[i].n] = LS[i] end
  end
  return LS
end

-- keyof is a key: its limit l (nil if none is in force), max, wait (ms until time alone gives room, 0 unknown), closed (a rate that admits nothing).
local function keyof(k)
  local K = KS[k]
  if K then return K end
  limits()
  local name, v = string.match(k, '^([^|]*)|(.*)$')
  local l = NAMES[name]
  if l and l.t and wall >= l.t then l = nil end
  K = {k = k, name = name, v = v, l = l, wait = 0}
  KS[k] = K
  if l then
    K.max = l.m or 0
    local own = l.v and call('HGET', P .. 'cfg', '=' .. k)
    if own then K.max = tonumber(own) end
    K.closed = l.r and own and K.max == 0
    if l.t then K.wait = l.t - wall end
  end
  return K
end

local function anyfiled()
  if some == nil then some = call('EXISTS', P .. 'fd') == 1 end
  return some
end

local function mark(K)
  if not K.marked then K.marked, marked[#marked + 1] = true, K end
end

local function members(K)
  if not K.n then K.n = tonumber(call('HGET', P .. 'lm|' .. K.name, K.v) or '0') + (K.d or 0) end
  return K.n
end

-- drop ends a membership; who waits for the key is looked at by finish.
local function drop(K, id, cost)
  mark(K)
  K.del = K.del or {}
  K.del[#K.del + 1], K.d, K.left = id, (K.d or 0) - cost, true
  if K.n then K.n = K.n - cost end
end

-- released ends the memberships of one text that the other does not have.
local function released(id, from, to)
  local a, b = holds(from), holds(to)
  for i = 1, #a, 2 do
    if not b.has[a[i]] then drop(keyof(a[i]), id, a.cost) end
  end
end

-- about is what limits make of the commands with one definition: the limits in force that apply, in the order in which they are tested, each with
-- its key K; text and rest, the memberships of a granted one, and those of them that stay between polls.
local function about(base, raw)
  local A = ABOUT[base]
  if A then return A end
  A = {cost = 1, text = '', rest = '', raw = raw, plain = true}
  ABOUT[base] = A
  local q, ty, g, cost, keys = string.match(raw or '', '^([^ ]+) ([^ ]+) ([^ ]*) [^ ]* (%d+)( .*)$')
  if not q then return A end
  A.q, A.ty, A.g, A.cost = q, ty, g, tonumber(cost)
  local texts = {}
  for i = 1, #limits() do
    local l = LS[i]
    if not (l.q and not l.q[q]) and not (l.t and wall >= l.t) then
      local v = ''
      if l.b == 1 then
        v = q
      elseif l.b == 2 then
        v = ty
      elseif l.b == 3 then
        v = g
      elseif l.b == 4 then
        local _, e = string.find(keys, ' ' .. l.k .. '=', 1, true)
        v = e and string.match(keys, '^[^ ]+', e + 1)
      end
      if v then
        local K = keyof(l.n .. '|' .. v)
        A[#A + 1] = K
        if l.r then A.rates = true else texts[#texts + 1] = K end
        if l.c then A.classifies = true end
        if l.c or l.s then A.plain = false end
      end
    end
  end
  if #texts > 1 then table.sort(texts, function(a, b) return a.l.o < b.l.o end) end
  local first = A.cost > 1 and '*' .. cost .. ' ' or ''
  for i = 1, #texts do
    local w = texts[i].k .. (texts[i].l.s and '|c' or '|i')
    A.text = (A.text == '' and first or A.text .. ' ') .. w
    if texts[i].l.s then A.rest = (A.rest == '' and first or A.rest .. ' ') .. w end
  end
  return A
end

-- waits are the keys of A for which a command of that lane and code waits. What may be active already never waits for a limit of scope
-- command, a cancel visit waits for nothing, and a limit that classifies holds nobody.
local function waits(A, lane, code)
  if A.plain and code ~= '3' and code ~= '5' then return A end
  local at = lane .. code
  local W = A[at]
  if W then return W end
  W = {}
  A[at] = W
  if code == '3' or code == '5' then return W end
  local active = lane == 'k' or code == '4' or code == '6'
  for i = 1, #A do
    local l = A[i].l
    if not l.c and not (l.s and active) then W[#W + 1] = A[i] end
  end
  return W
end

local function writekeys()
  for i = 1, #marked do
    local K = marked[i]
    if K.del then call('SREM', P .. 'm|' .. K.k, unpack(K.del)) end
    if K.add then call('SADD', P .. 'm|' .. K.k, unpack(K.add)) end
    if K.d and K.d ~= 0 then
      local key = P .. 'lm|' .. K.name
      if call('HINCRBY', key, K.v, K.d) <= 0 then call('HDEL', key, K.v) end
    end
    if K.spent then call('HSET', P .. 'lb', K.k, fmt('%.17g', K.b)) end
    if K.restood then
      if K.stood > 0 then call('HSET', P .. 'fs', K.k, fmt('%d', K.stood)) else call('HDEL', P .. 'fs', K.k) end
    end
    K.add, K.del, K.d, K.spent, K.restood, K.marked = nil, nil, nil, nil, nil, nil
  end
  marked = {}
end
