-- limits.lua: the limits of the configuration, the keys that they count by, and who is a member of them. A key is limit|value. What a lease or a
-- record says of memberships is a text: !, if the lease is over a limit that classifies; * and the cost, if it is not 1; then for each
-- membership limit|value|scope (i, c), by limit name; all parted by blanks.
local LS, NAMES -- limits in the order in which they are tested, as config.go packs them, and by name
local KS, ABOUT, TEXTS, NONE = {}, {}, {}, {}
local marked = {} -- keys that flush has to write

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

local function limits()
  if not LS then
    local s = call('HGET', P .. 'cfg', ' ')
    LS, NAMES = s and cmsgpack.unpack(s) or {}, {}
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

local function mark(K)
  if not K.marked then K.marked, marked[#marked + 1] = true, K end
end

local function members(K)
  if not K.n then K.n = tonumber(call('HGET', P .. 'lm|' .. K.name, K.v) or '0') + (K.d or 0) end
  return K.n
end

local function add(K, id, cost)
  mark(K)
  K.add = K.add or {}
  K.add[#K.add + 1], K.d = id, (K.d or 0) + cost
  if K.n then K.n = K.n + cost end
end

-- drop ends a membership; who waits for the key is looked at by finish.
local function drop(K, id, cost)
  mark(K)
  K.del = K.del or {}
  K.del[#K.del + 1], K.d, K.left = id, (K.d or 0) - cost, true
  if K.n then K.n = K.n - cost end
end

local function bucket(K)
  if not K.b then K.b = tonumber(call('HGET', P .. 'lb', K.k) or '0') end
  return K.b
end

-- force takes a token of a rate.
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

-- holds reads a text of memberships.
local function holds(text)
  local h = TEXTS[text]
  if h then return h end
  h = {cost = 1, rest = ''}
  local first, rest = '', {}
  for w in string.gmatch(text, '[^ ]+') do
    local b = byte(w)
    if b == 33 then
      h.over = true
    elseif b == 42 then
      h.cost, first = tonumber(sub(w, 2)), w .. ' '
    else
      h[#h + 1] = {k = sub(w, 1, -3), s = sub(w, -1)}
      if sub(w, -1) == 'c' then rest[#rest + 1] = w end
    end
  end
  if #rest > 0 then h.rest = first .. table.concat(rest, ' ') end
  TEXTS[text] = h
  return h
end

local function has(h, k)
  for i = 1, #h do
    if h[i].k == k then return true end
  end
end

-- released ends the memberships of one text that the other does not have.
local function released(id, from, to)
  local a, b = holds(from), holds(to)
  for i = 1, #a do
    if not has(b, a[i].k) then drop(keyof(a[i].k), id, a.cost) end
  end
end

-- about is what limits make of the commands with one definition: the limits in force that apply, in the order in which they are tested, each with
-- its key K; text and rest, the memberships of a granted one, and those of them that stay between polls.
local function about(base, raw)
  local A = ABOUT[base]
  if A then return A end
  A = {cost = 1, text = '', rest = ''}
  ABOUT[base] = A
  local q, ty, g, cost, keys = string.match(raw or '', '^([^ ]+) ([^ ]+) ([^ ]*) [^ ]* (%d+)( .*)$')
  if not q then return A end
  A.q, A.ty, A.g, A.cost = q, ty, g, tonumber(cost)
  local texts = {}
  for _, l in ipairs(limits()) do
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
        if l.r then A.rates = true else texts[#texts + 1] = {o = l.o, text = K.k .. (l.s and '|c' or '|i')} end
        if l.c then A.classifies = true end
      end
    end
  end
  if #texts > 0 then
    if #texts > 1 then table.sort(texts, function(a, b) return a.o < b.o end) end
    for i = 1, #texts do texts[i] = texts[i].text end
    A.text = (A.cost > 1 and '*' .. cost .. ' ' or '') .. table.concat(texts, ' ')
    A.rest = holds(A.text).rest
  end
  return A
end

-- waits are the keys of A for which a command of that lane and code waits. What may be active already never waits for a limit of scope
-- command, a cancel visit waits for nothing, and a limit that classifies holds nobody.
local function waits(A, lane, code)
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

-- unfit is the first lasting limit that could never admit a command with that definition, or nil.
local function unfit(base, raw)
  local A = about(base, raw)
  for i = 1, #A do
    local K = A[i]
    if not K.l.t and K.max > 0 and never(K, A.cost) then return K end
  end
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
