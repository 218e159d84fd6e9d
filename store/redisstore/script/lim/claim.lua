-- claim.lua: what a claim asks of limits. L is a line that a want looks at, see heads.lua.

-- prepare reads what limits need of the lines of a want.
local function prepare(ls)
  local bases, names = {}, {}
  for i = 1, #ls do
    local base = sub(ls[i].line, 1, 16)
    names[i] = ls[i].line
    if not ABOUT[base] and not bases[base] then
      bases[#bases + 1], bases[base] = base, true
    end
  end
  if #names == 0 then return end
  if #bases > 0 then
    local raw = call('HMGET', P .. 'ld', unpack(bases))
    for i = 1, #bases do about(bases[i], raw[i]) end
  end
  load(names)
  for i = 1, #ls do
    local L = ls[i]
    L.A = about(sub(L.line, 1, 16))
    L.W = waits(L.A, sub(L.line, 17, 17), sub(L.line, 18, 18))
  end
end

local function prepareone(L)
  local base = sub(L.line, 1, 16)
  if not ABOUT[base] then about(base, call('HGET', P .. 'ld', base)) end
  prepare({L})
end

-- free is how many commands of L its limits let in now, one after the other; 0 if each has to be looked at by itself.
local function free(L)
  local n, A = 1e9, L.A
  if A.rates or A.classifies or get(L.line) then return 0 end
  for i = 1, #A do
    if not nobody(A[i]) then return 0 end
  end
  for i = 1, #L.W do n = min(n, floor((L.W[i].max - members(L.W[i])) / A.cost)) end
  return n
end

-- kept is the text of the memberships that a record has at rest.
local function kept(r)
  if byte(r, 18) < 128 then return '' end
  return (sunpack('<I2c0', r, 72))
end

-- expected is the text of those that a command of L has at rest, so that a grant changes no more than its invocation does.
local function expected(L) return sub(L.line, 17, 17) == 'k' and L.A.rest or '' end

-- joinall makes granted commands members, of whom each has what is expected; it returns what their leases say.
local function joinall(L, ids, from, to)
  local A, poll = L.A, expected(L) ~= ''
  for i = 1, #A do
    local K = A[i]
    if not (poll and K.l.s) then
      for j = from, to do add(K, ids[j], A.cost) end
    end
  end
  granted[#granted + 1] = L.line
  return A.text ~= '' and ' ' .. A.text or nil
end

-- join makes a granted command a member of its limits, takes the tokens of its rates if it is the first of its invocation, and returns what
-- its lease says.
local function join(L, id, r, first)
  local A, was, over = L.A, kept(r), ''
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
    local h, keys = holds(was), {}
    for i = 1, #A do
      if A[i].l.r or has(h, A[i].k) then keys[#keys + 1] = A[i] end
    end
    taken(L.line, keys, #keys)
  else
    local h = holds(was)
    for i = 1, #A do
      if not A[i].l.r and not has(h, A[i].k) then add(A[i], id, A.cost) end
    end
    taken(L.line, A, #A)
    if was ~= '' then released(id, was, now) end
  end
  now = over .. now
  return now ~= '' and ' ' .. now or nil
end

-- stop says which key stops the next command of L and files the line; more says that its invocation has begun, so that rates do not count.
local function stop(L, more)
  local W = L.W
  if #W == 0 then return false end
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

-- waiting is the first key under which lines of a want are filed, and in how many ms the first of those is tested again.
local function waiting(q, lane, types)
  if not anyfiled() or not call('HGET', P .. 'fn', q .. '|' .. lane) then return nil end
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
