-- room.lua: what limits ask when there may not be room for everything: keys, how many members they have, and which commands they let in. A key is
-- limit|value.

-- keyin is a key of a limit: its limit l (nil if none is in force), max, wait (ms until time alone gives room, 0 unknown), closed (a rate that
-- admits nothing), c and alone (see the folder filed).
local function keyin(l, name, v)
  local k = name .. '|' .. v
  local K = KS[k]
  if K then return K end
  K = {k = k, name = name, v = v, l = l, M = of(name), max = l and l.m or 0, wait = 0, c = nil, closed = nil, stood = nil, marked = nil, left = nil, alone = nil, lf = nil}
  KS[k] = K
  if l then
    if l.v then
      local own = call('HGET', P .. 'cfg', '=' .. k)
      if own then K.max = tonumber(own) or 0 end -- what cannot be read is closed
      K.closed = l.r and own and K.max == 0
    end
    if l.t then K.wait = l.t - wall end
  end
  return K
end

-- countof is how many members a value has: a command of cost c is c of them.
local function countof(M, v)
  local by = M.by
  if not by then
    by = {}
    M.by = by
  end
  local n = by[v]
  if not n then
    if M.k > 0 or M.del then writemembers(M) end
    n = M.n == 0 and 0 or call('ZLEXCOUNT', M.key, '[' .. v .. '|', '(' .. v .. '}')
    by[v] = n
  end
  return n
end

local function members(K) return countof(K.M, K.v) end

-- keysof are the keys of A.
local function keysof(A)
  local ks = A.keys
  if not ks then
    ks = {}
    for i = 1, #A, 2 do ks[(i + 1) / 2] = keyin(A[i], A[i].n, A[i + 1]) end
    A.keys = ks
  end
  return ks
end

-- waits are the keys of A for which the commands of a line wait. What may be active already never waits for a limit of scope command, a cancel
-- visit waits for nothing, and a limit that classifies holds nobody.
local function waits(A, line)
  local at = sub(line, 17, 18)
  local W = A[at]
  if W then return W end
  local code, active = sub(at, 2, 2), byte(at) == 107
  W = {}
  A[at] = W
  if code == '3' or code == '5' then return W end
  active = active or code == '4' or code == '6'
  local ks = keysof(A)
  for i = 1, #ks do
    local l = ks[i].l
    if not l.c and not (l.s and active) then W[#W + 1] = ks[i] end
  end
  return W
end

-- most is how many of the next n commands of L there can be room for.
local function most(L, n)
  if spare >= n * L.A.cost then return n end
  if solo[L] then return min(n, max(0, floor(((L.A[1].m or 0) - countof(of(L.A[1].n), L.A[2])) / L.A.cost))) end
  local W = waits(L.A, L.line)
  for i = 1, #W do
    if not W[i].l.r then n = min(n, max(0, floor((W[i].max - members(W[i])) / L.A.cost))) end
  end
  return n
end

-- kept is the text of the memberships that a record has at rest.
local function kept(r)
  if byte(r, 18) < 128 then return '' end
  return (sunpack('<I2c0', r, 72))
end

-- free is how many of the next n commands of L its limits let in now, one after the other; 0 if each has to be looked at by itself.
local function free(L, n)
  if not L.A.easy or anyfiled() and LM.crowded(L) then return 0 end
  return most(L, n)
end

-- issolo says whether that is still true of a line that was true when its want began.
local function issolo(L)
  if not solo[L] then return false end
  if not (stirred and stirred[L.A[1].n .. '|' .. L.A[2]]) then return true end
  solo[L] = nil
  LM.loadkeys({L})
  return false
end

-- stop says whether a limit stops the next command of L, and files the line if one does; more says that its invocation has begun, so that
-- rates do not count.
local function stop(L, more)
  if issolo(L) then
    local A = L.A
    local l = A[1]
    if countof(of(l.n), A[2]) + A.cost <= (l.m or 0) then return false end
    solo[L] = nil
    LM.loadkeys({L})
  end
  local W, cost = waits(L.A, L.line), L.A.cost
  for i = 1, #W do
    local K = W[i]
    if K.l.r or members(K) + cost > K.max or some and K.alone ~= L.line and (K.c or LM.count(K)) > 0 then return LM.stopped(L, W, more) end
  end
  return false
end

-- join makes a granted command a member of its limits, takes the tokens of its rates if it is the first of its invocation, and returns what
-- its lease says.
local function join(L, id, r, first)
  local A = L.A
  spare = spare - A.cost
  if not A.easy or L.cl == 3 or L.cl == 5 then return LM.joinone(L, id, r, first) end
  local rest = sub(L.line, 17, 17) == 'k' and A.rest or '' -- what a record says of memberships if a grant changes no more than its invocation does
  if kept(r) ~= rest or some and not (issolo(L) and LM.rejoin(L) or not LM.crowded(L)) then return LM.joinone(L, id, r, first) end
  enlist(A, id, rest ~= '')
  granted[#granted + 1] = L.line
  return A.tail ~= '' and A.tail or nil
end

-- forget lets the claim behind the maintenance look at everything anew, and so at little.
local function forget()
  for k in pairs(LF) do LM[k] = nil end
  LF, KS, ABOUT, solo, stirred, shutnow = nil, {}, {}, {}, false, {}
  LM.lines = ABOUT
end
