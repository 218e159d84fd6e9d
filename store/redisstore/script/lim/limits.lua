-- limits.lua: the limits of the configuration, the keys that they count by, and who is a member of them. A key is limit|value. What a lease or a
-- record says of memberships is a text, see holds.lua. Each table costs a claim more than a call, so there are few.
local LS, NAMES -- limits in the order in which they are tested, as config.go packs them, and by name
local KS, ABOUT, MS = {}, {}, {} -- keys; what limits make of definitions; members by limit
local marked, granted = {}, {}   -- keys that finish has to look at; lines that were granted from
local solo, stirred = {}, false   -- lines of which a claim need not know more than members, see left.lua; keys to which that does not apply any more
local shutnow = {}               -- lines that are closed from now on
local some, calm                 -- whether any line is filed; nothing is left to be tidied up either
local filed, LF                  -- makes what only a key without room needs, see the folder filed; what it made
local room, LR                   -- makes what is needed if there may not be room for everything, see the folder room; what it made
local left, LO                   -- the same for ends of memberships, see the folder left
local turns, LT                  -- the same for fair turns, see the folder turn

local function limits()
  if not LS then
    LS, NAMES = limited and cmsgpack.unpack(limited) or {}, {}
    for i = 1, #LS do
      NAMES[LS[i].n] = LS[i]
      if LS[i].s then LM.scoped = true end
    end
  end
  return LS
end

-- of are the members of a limit over all its keys: those that finish adds (k of them), and takes away; n, how many there are; by, how many keys have
-- by their values, as far as they were counted.
local function of(name)
  local M = MS[name]
  if not M then
    M = {key = P .. 'm|' .. name, add = {}, k = 0, del = false, n = nil, by = false}
    MS[name] = M
  end
  return M
end

local function anyfiled()
  if some == nil then some = call('EXISTS', P .. 'fd') == 1 end
  return some
end

local function writemembers(M)
  if M.del then
    many('ZREM', M.key, M.del)
    M.del = false
  end
  if M.k == 0 then return end
  zadd(M.key, M.k < 16 and 16 or call('ZCARD', M.key), M.add)
  M.add, M.k = {}, 0
end

-- total is how many a limit has over all its keys.
local function total(M)
  if not M.n then
    if M.k > 0 or M.del then writemembers(M) end
    M.n = call('ZCARD', M.key)
  end
  return M.n
end

-- about is what limits make of the commands with one definition: in turn the limits in force that apply, in the order in which they are tested, and the
-- values by which they count; cost; tail, what the lease of a granted one says of memberships, behind a blank; rest, those of them that stay between
-- polls; easy, if no limit is more than a number of members.
local function about(base, raw)
  local A = ABOUT[base]
  if A then return A end
  raw = raw or ''
  local find = string.find
  local a = find(raw, ' ', 1, true)
  local b = a and find(raw, ' ', a + 1, true)
  local c = b and find(raw, ' ', b + 1, true)
  local d = c and find(raw, ' ', c + 1, true)
  local e = d and find(raw, ' ', d + 1, true)
  A = {nil, nil, raw = raw, cost = 1, tail = '', rest = '', easy = true, keys = false}
  ABOUT[base] = A
  if not e then return A end
  local n, texts, first = 0, 0, ''
  if e > d + 2 or byte(raw, d + 1) ~= 49 then
    A.cost = tonumber(sub(raw, d + 1, e - 1))
    first = '*' .. sub(raw, d + 1, e)
  end
  limits()
  for i = 1, #LS do
    local l = LS[i]
    if not (l.q and not l.q[sub(raw, 1, a - 1)]) and not (l.t and wall >= l.t) then
      local v = ''
      if l.b == 1 then
        v = sub(raw, 1, a - 1)
      elseif l.b == 2 then
        v = sub(raw, a + 1, b - 1)
      elseif l.b == 3 then
        v = sub(raw, b + 1, c - 1)
      elseif l.b == 4 then
        local _, at = find(raw, ' ' .. l.k .. '=', e, true)
        v = at and string.match(raw, '^[^ ]+', at + 1)
      end
      if v then
        A[n + 1], A[n + 2], l.used = l, v, true
        n = n + 2
        if l.r then
          A.easy = false
        else
          texts = texts + 1
          if l.c then A.easy = false end
        end
      end
    end
  end
  if texts == 1 and n == 2 then
    local l = A[1]
    local w = first .. l.n .. '|' .. A[2]
    if l.s then A.tail, A.rest = ' ' .. w .. '|c', w .. '|c' else A.tail = ' ' .. w .. '|i' end
  elseif texts > 0 then -- by name
    local byname = {}
    for i = 1, n, 2 do byname[(i + 1) / 2] = {A[i], A[i + 1]} end
    table.sort(byname, function(x, y) return x[1].o < y[1].o end)
    local text = ''
    for i = 1, #byname do
      local l = byname[i][1]
      if not l.r then
        local w = l.n .. '|' .. byname[i][2] .. (l.s and '|c' or '|i')
        text = (text == '' and first or text .. ' ') .. w
        if l.s then A.rest = (A.rest == '' and first or A.rest .. ' ') .. w end
      end
    end
    A.tail = ' ' .. text
  end
  return A
end
