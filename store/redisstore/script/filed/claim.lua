-- claim.lua: what a claim asks of limits when there is more to do than to count. L is a line that a want looks at, see heads.lua.

-- crowded says whether lines are filed under the keys of L, or itself.
local function crowded(L)
  if get(L.line) then return true end
  local ks = keysof(L.A)
  for i = 1, #ks do
    if not nobody(ks[i]) then return true end
  end
  return false
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

-- without is a text of memberships without some keys.
local function without(text, keys)
  local out, first = '', ''
  for w in string.gmatch(text, '[^ ]+') do
    if byte(w) == 42 then
      first = w .. ' '
    elseif not keys[sub(w, 1, -3)] then
      out = (out == '' and first or out .. ' ') .. w
    end
  end
  return out
end

-- joinone is join of a command for which limits have more to do than to count it. A limit that classifies and has no room for it gets no member;
-- who is one stays one.
local function joinone(L, id, r, first)
  local A, was, over = L.A, LM.kept(r), nil
  local ks = keysof(A)
  granted[#granted + 1] = L.line
  local visit = L.cl == 3 or L.cl == 5
  for i = 1, #ks do
    local K = ks[i]
    if K.l.r then
      if first and not K.closed then spend(K) end
    elseif K.l.c and not (was ~= '' and held(was, K.k)) and members(K) + A.cost > K.max then
      over = over or {}
      over[K.k] = true
    end
  end
  local now = visit and was or sub(A.tail, 2)
  if visit then
    local keys = {}
    for i = 1, #ks do
      if ks[i].l.r or held(was, ks[i].k) then keys[#keys + 1] = ks[i] end
    end
    if anyfiled() then taken(L.line, keys) end
  else
    if over then now = without(now, over) end
    for i = 1, #ks do
      local K = ks[i]
      if not K.l.r and not (over and over[K.k]) and not (was ~= '' and held(was, K.k)) then LM.enlist({K.l, K.v, cost = A.cost}, id) end
    end
    if anyfiled() then taken(L.line, ks) end
    if was ~= '' then LM.released(id, was, now) end
  end
  if over then now = now == '' and '!' or '! ' .. now end
  return now ~= '' and ' ' .. now or nil
end

-- stopper says which key stops a command of a line, if one does, and how long until time alone may change that.
local function stopper(line, W, cost)
  for i = 1, #W do
    local K = W[i]
    local ok, wait = room(K, cost)
    if not ok then return K, wait end
    if K.alone ~= line and behind(K, line) then return K, 0 end
  end
end

-- stopped says which key stops the next command of L and files the line.
local function stopped(L, all, more)
  local W = all
  if more and not L.A.easy then
    W = {}
    for i = 1, #all do
      if not all[i].l.r then W[#W + 1] = all[i] end
    end
  end
  local K, wait = stopper(L.line, W, L.A.cost)
  if not K then return false end
  if not more then file(L.line, L.A, K, wait, tonumber(L.sc[L.i] or L.s)) end
  return true
end

local function prepareone(L) LM.prepare({L}, 1) end

-- unfit is the first lasting limit that could never admit a command with that definition, or nil.
local function unfit(base, raw)
  local A = about(base, raw)
  local ks = keysof(A)
  for i = 1, #ks do
    local K = ks[i]
    local l = K.l
    if not (l.t or l.r or l.c) and K.max > 0 and A.cost > K.max then return K end
  end
end
