-- join.lua: what a claim asks of limits as long as there is room. L is a line that a want looks at, see heads.lua.

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
  if anyfiled() then LM.load(names) end
  for i = 1, #ls do
    local L = ls[i]
    L.A = about(sub(L.line, 1, 16))
    local lane = sub(L.line, 17, 17)
    L.W = waits(L.A, lane, sub(L.line, 18, 18))
    L.rest = lane == 'k' and L.A.rest or '' -- what a record says of memberships if a grant changes no more than its invocation does
  end
end

-- kept is the text of the memberships that a record has at rest.
local function kept(r)
  if byte(r, 18) < 128 then return '' end
  return (sunpack('<I2c0', r, 72))
end

-- joinall makes granted commands members, of whom each has what is expected; it returns what their leases say.
local function joinall(L, ids, from, to)
  local A, n = L.A, to - from + 1
  for i = 1, #A do
    local K = A[i]
    if not (L.rest ~= '' and K.l.s) then
      mark(K)
      local l = K.add or {}
      local k = #l
      for j = from, to do
        k = k + 1
        l[k] = ids[j]
      end
      K.add, K.d = l, (K.d or 0) + n * A.cost
      if K.n then K.n = K.n + n * A.cost end
    end
  end
  granted[#granted + 1] = L.line
  return A.text ~= '' and ' ' .. A.text or nil
end

-- free is how many commands of L its limits let in now, one after the other; 0 if each has to be looked at by itself.
local function free(L)
  local n, A = 1e9, L.A
  if A.rates or A.classifies or anyfiled() and LM.crowded(L) then return 0 end
  for i = 1, #L.W do n = min(n, floor((L.W[i].max - members(L.W[i])) / A.cost)) end
  return n
end

-- hints looks at those who wait for what was given up.
local function hints()
  if #marked > 0 and anyfiled() then LM.hintall() end
end

-- finish does that too, and writes.
local function finish()
  hints()
  if #granted > 0 then
    if not calm and call('EXISTS', P .. 'fp') == 1 then call('HDEL', P .. 'fp', unpack(granted)) end
    granted = {}
  end
  if #marked > 0 then writekeys() end
  if LF then LF.writelines() end
end

-- maintain says whether there is more to be tested again or made anew, and in how many ms there will be.
local function maintain()
  if #limits() > 0 and call('EXISTS', P .. 'fd', P .. 'fp', P .. 'lb', P .. 'lo', P .. 'vb') == 0 then
    some, calm = false, true
    return false
  end
  return LM.retests()
end
