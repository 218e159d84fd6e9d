-- join.lua: what a claim asks of limits as long as there is room. L is a line that a want looks at, see heads.lua: A is what limits make of it.
local afforded -- whether spare says something

-- prepare reads what limits need of the lines of a want, which asks for no more than need of them. spare is then how many members may join before a
-- limit has to be looked at: as many as none of these limits refuses, whatever their keys are.
local function prepare(ls, need)
  if #ls == 0 then return end
  local bases, k = {}, 0
  for i = 1, #ls do
    local base = sub(ls[i].line, 1, 16)
    if ABOUT[base] == nil then
      k = k + 1
      bases[k], ABOUT[base] = base, false
    end
  end
  if k > 0 then
    local raw = mget('HMGET', P .. 'ld', bases)
    for i = 1, k do about(bases[i], raw[i]) end
  end
  local n, cost, crowd = 1e9, 1, anyfiled()
  for i = 1, #ls do
    local L = ls[i]
    local A = ABOUT[sub(L.line, 1, 16)]
    L.A, cost = A, max(cost, A.cost)
  end
  for i = 1, #LS do
    local l = LS[i]
    if l.used and not l.c then n = (l.r or l.v) and 0 or min(n, (l.m or 0) - total(of(l.n))) end
  end
  if crowd then
    local others = LM.findsolo(ls)
    if #others > 0 then LM.loadkeys(others) end
    n = 0
  end
  if n < need * cost then -- each key counts
    for i = 1, #ls do
      local A = ls[i].A
      for j = 1, #A, 2 do
        if not A[j].r then LM.countof(of(A[j].n), A[j + 1]) end
      end
    end
  end
  if not afforded or n < spare then spare = n end
  afforded = true
end

-- enlist makes a granted command a member of its limits; again says that it is one already of those of scope command.
local function enlist(A, id, again)
  local cost = A.cost
  for i = 1, #A, 2 do
    local l, v = A[i], A[i + 1]
    if not (again and l.s) then
      local M = MS[l.n] or of(l.n)
      local add, k, by = M.add, M.k, M.by
      if cost == 1 then
        add[k + 1], add[k + 2] = '0', v .. '|' .. id
        M.k = k + 2
      else
        M.k = entries(add, v .. '|', id, cost, '0')
      end
      if by and by[v] then by[v] = by[v] + cost end
      if M.n then M.n = M.n + cost end
    end
  end
end

-- joinall makes granted commands members, of whom each has what is expected.
local function joinall(L, ids, from, to)
  local again = L.A.rest ~= '' and sub(L.line, 17, 17) == 'k'
  for j = from, to do enlist(L.A, ids[j], again) end
  spare = spare - (to - from + 1) * L.A.cost
  granted[#granted + 1] = L.line
end

-- hints ends the picking of a want: it looks at those who wait for what was given up.
local function hints()
  spare, afforded, solo = 0, false, {}
  if #marked > 0 and anyfiled() then LM.hintall() end
end

-- finish does that too, and writes.
local function finish()
  if #marked > 0 and anyfiled() then LM.hintall() end
  if #granted > 0 then
    if not calm and call('EXISTS', P .. 'fp') == 1 then call('HDEL', P .. 'fp', unpack(granted)) end
    granted = {}
  end
  for _, M in pairs(MS) do
    if M.k > 0 or M.del then writemembers(M) end
  end
  if LO then LO.writeleft() end
  if LF then LF.writelines() end
  if #marked > 0 then
    for i = 1, #marked do marked[i].marked = nil end
    marked = {}
  end
end

-- maintain says whether there is more to be tested again or made anew, and in how many ms there will be.
local function maintain()
  if #limits() > 0 and call('EXISTS', P .. 'fd', P .. 'fp', P .. 'lb', P .. 'lo', P .. 'vb') == 0 then
    some, calm, LM.calm = false, true, true
    return false
  end
  local next = 1000
  if anyfiled() then
    local at = call('HMGET', KEYS[1], 'fst', 'fsw', 'fcv')
    local h = call('ZRANGE', P .. 'fr', 0, 0, 'WITHSCORES')[2]
    next = min(at[1] and tonumber(at[1]) - run or next, at[2] and tonumber(at[2]) - run or 0, at[3] and 0 or next, h and tonumber(h) - run or next)
  end
  if next > 0 and call('EXISTS', P .. 'vb') == 0 and floor(run / 100) == floor(ran / 100) then
    if LF then LM.forget() end
    return false, next
  end
  local more
  more, next = LM.retests()
  if LF then LM.forget() end
  return more, next
end
