-- claim.lua: what a claim asks of limits when it looks at one command after the other. L is a line that a want looks at, see heads.lua.
local function prepareone(L)
  local base = sub(L.line, 1, 16)
  if not ABOUT[base] then about(base, call('HGET', P .. 'ld', base)) end
  prepare({L})
end

local function add(K, id, cost)
  mark(K)
  K.add = K.add or {}
  K.add[#K.add + 1], K.d = id, (K.d or 0) + cost
  if K.n then K.n = K.n + cost end
end

-- join makes a granted command a member of its limits, takes the tokens of its rates if it is the first of its invocation, and returns what
-- its lease says.
local function join(L, id, r, first)
  local A, was, over = L.A, kept(r), ''
  granted[#granted + 1] = L.line
  local visit = L.cl == 3 or L.cl == 5
  for i = 1, #A do
    local K = A[i]
    if K.l.r then
      if first and not K.closed then spend(K) end
    elseif K.l.c and members(K) + A.cost > K.max then
      over = '! '
    end
  end
  local now = visit and was or A.text
  if visit then
    local keys = {}
    for i = 1, #A do
      if A[i].l.r or holds(was).has[A[i].k] then keys[#keys + 1] = A[i] end
    end
    if anyfiled() then taken(L.line, keys) end
  else
    for i = 1, #A do
      if not A[i].l.r and not (was ~= '' and holds(was).has[A[i].k]) then add(A[i], id, A.cost) end
    end
    if anyfiled() then taken(L.line, A) end
    if was ~= '' then released(id, was, now) end
  end
  now = over .. now
  return now ~= '' and ' ' .. now or nil
end

-- stop says whether a limit stops the next command of L, and files the line if one does; more says that its invocation has begun, so that
-- rates do not count.
local function stop(L, more)
  local W, cost = L.W, L.A.cost
  for i = 1, #W do
    if W[i].l.r or members(W[i]) + cost > W[i].max or anyfiled() then return stopped(L, more) end
  end
  return false
end

-- unfit is the first lasting limit that could never admit a command with that definition, or nil.
local function unfit(base, raw)
  local A = about(base, raw)
  for i = 1, #A do
    local K = A[i]
    local l = K.l
    if not (l.t or l.r or l.c) and K.max > 0 and A.cost > K.max then return K end
  end
end

