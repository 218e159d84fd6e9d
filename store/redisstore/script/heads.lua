-- heads.lua: the lines that one want of a claim looks at, always at the first command that can be granted.
-- w is the want under way: q, lane, status, n (invocations), granted, types, why, next, lines (those touched).
local w
local looked = 0 -- records read by this call
local runs       -- the run clock as text

-- soon lets the answer say that something may change in d ms.
local function soon(d)
  d = max(1, ceil(d))
  if w.next == 0 or d < w.next then w.next = d end
end

-- times reads start_by, deadline and starts of a record that has times.
local function times(s, f0)
  local p, starts = 45, 0
  if f0 % 2 == 1 then
    starts = sunpack('<I4', s, 57)
    p = 72
    if byte(s, 18) >= 128 then p = p + 2 + sunpack('<I2', s, p) end
  end
  if band(f0, 2) ~= 0 then p = p + 1 + byte(s, p) end
  local _, sb, dl = sunpack('<I6I6I6', s, p)
  return sb, dl, starts
end

-- visit says whether a class is one of cancel visits.
local function isvisit(cl) return cl == 3 or cl == 5 end

-- touch notes a line that will have lost commands.
local function touch(L)
  if not w.lines[L] then w.lines[L], w.lines[#w.lines + 1] = true, L end
end

-- read is a piece of a line: ids, and their scores if several lines compete.
local function piece(L, cnt, scores)
  local key = P .. 'l|' .. L.line
  local r
  if w.lane == 'k' then
    if not scores then return call('ZRANGEBYSCORE', key, '-inf', runs, 'LIMIT', L.off, cnt), {} end
    r = call('ZRANGEBYSCORE', key, '-inf', runs, 'WITHSCORES', 'LIMIT', L.off, cnt)
  else
    if not scores then return call('ZRANGE', key, L.off, L.off + cnt - 1), {} end
    r = call('ZRANGE', key, L.off, L.off + cnt - 1, 'WITHSCORES')
  end
  local ids, sc = {}, {}
  for i = 1, #r / 2 do ids[i], sc[i] = r[2 * i - 1], r[2 * i] end
  return ids, sc
end

local function put(L, ids, sc, cnt)
  local k = #ids
  L.ids, L.sc, L.n, L.i, L.off, L.more = ids, sc, k, 1, L.off + k, k == cnt
  looked = looked + k
end

-- fitting is how many of the next cnt commands of a line need to be read: one more than its limits leave room for.
local function fitting(L, cnt)
  if spare >= 64 * cnt then return cnt end
  return min(cnt, LM.most(L, cnt) + 1)
end

-- fill reads the next piece of a line; several is how many lines compete, false if it is alone for certain.
local function fill(L, several)
  local need = (w.n - w.granted) * L.t.batch
  local cnt = min(500, several and several > 1 and max(8, ceil(2 * need / several)) or need)
  if limited then cnt = fitting(L, cnt) end
  local ids, sc = piece(L, cnt, several)
  put(L, ids, sc, cnt)
  if #ids > 0 then L.rec = call('MGET', unpack(keysof(ids, 'c|'))) end
end

-- prefill reads the first piece of each of many lines, and all their records at once.
local function prefill(ls)
  local k, ks, from = #ls, {}, {}
  if k < 4 then return ls end
  for j = k, max(1, k - w.n + 1), -1 do
    local L = ls[j]
    local cnt = max(2, ceil(2 * w.n * L.t.batch / k))
    if limited then cnt = fitting(L, cnt) end
    local ids, sc = piece(L, cnt, true)
    put(L, ids, sc, cnt)
    from[L], L.rec = #ks, {}
    for i = 1, #ids do ks[#ks + 1] = P .. 'c|' .. ids[i] end
    if #ks > 2000 then break end
  end
  local rec = #ks > 0 and call('MGET', unpack(ks)) or {}
  for L, at in pairs(from) do
    for i = 1, L.n do L.rec[i] = rec[at + i] end
  end
  return ls
end

-- newline is a line of the want. cl is its class, which need not be the last letter of its name.
local function newline(line, key, t, s, cl)
  return {line = line, open = key, t = t, s = s, off = 0, i = 1, n = 0, more = true, whole = true, taken = 0, cl = cl}
end

-- opened appends the open lines of a type and a letter that have something now.
local function opened(ls, t, code, cl)
  local k, key = #ls, openkey(w.q, w.lane, code, t.ty)
  local r
  if limited and lim().anyfiled() then -- the closed lines stand below 0
    r = call('ZRANGEBYSCORE', key, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, w.n + 1)
  else
    r = call('ZRANGE', key, 0, w.n, 'WITHSCORES')
  end
  for j = 1, #r, 2 do
    local s = tonumber(r[j + 1])
    if w.lane == 'k' and s > run then
      soon(s - run)
      break
    end
    k = k + 1
    ls[k] = newline(r[j], key, t, s, cl)
  end
  if #r > 2 * w.n then w.cut = true end
  return k
end

-- open is the open lines of a class that have something now, the first last.
local function open(cl)
  local ls, k = {}, 0
  for _, t in ipairs(w.types) do
    k = opened(ls, t, cl, cl)
    if cl == 2 and w.holders then k = opened(ls, t, 6, cl) end
  end
  if limited then
    lim().prepare(ls, w.n)
    for i = 1, LM.anyfiled() and k or 0 do w.byline[ls[i].line] = ls[i] end
  end
  if #w.types > 1 or cl == 2 and limited then
    table.sort(ls, function(a, b) return a.s > b.s or a.s == b.s and a.line > b.line end)
  else
    for i = 1, floor(k / 2) do ls[i], ls[k + 1 - i] = ls[k + 1 - i], ls[i] end
  end
  return prefill(ls)
end

-- gap notes that what is taken from L is not its beginning any more; from now on out lists what is taken.
local function gap(L)
  if not L.whole then return end
  L.whole = false
  L.out = L.taken > 0 and call('ZRANGE', P .. 'l|' .. L.line, 0, L.taken - 1) or {}
end

-- lose sets aside the command at which L stands.
local function lose(L)
  local H = lib()
  H.setaside(L.ids[L.i], L.line)
  H.incr(P .. 'n|' .. w.q, w.lane .. L.t.ty, -1)
  if w.lane == 'i' then H.incr(P .. 'n|' .. w.q, 'p', -1) end
  H.flush()
  L.off = L.off - 1
  touch(L)
end

-- head makes L stand at a record that can be granted; false if the line has none. What is passed over stays in line.
local function head(L, several)
  while true do
    while L.i <= L.n do
      local s = L.rec[L.i]
      local v, st, f0, _
      if s and #s >= 44 then v, st, _, _, _, _, _, _, _, _, _, _, _, _, _, f0 = byte(s, 1, 16) end
      local good, late = v == 1 and st == w.status, false
      if good and band(f0, 4) ~= 0 and not isvisit(L.cl) then
        local ok, sb, dl, starts = pcall(times, s, f0)
        good = ok
        late = ok and (dl ~= 0 and wall >= dl or sb ~= 0 and starts == 0 and wall >= sb)
      end
      if good and not late then return true end
      gap(L)
      if good then w.why = 5 else lose(L) end -- its time is over and maintenance has not come to it; or it cannot be read
      L.i = L.i + 1
    end
    if not L.more then return false end
    if looked > 2000 then
      w.why = 5
      return false
    end
    fill(L, several)
  end
end

-- insert puts a line where it belongs: scores fall with the index.
local function insert(ls, L)
  local lo, hi = 1, #ls
  while lo <= hi do
    local mid = floor((lo + hi) / 2)
    if ls[mid].s >= L.s then lo = mid + 1 else hi = mid - 1 end
  end
  table.insert(ls, lo, L)
end

-- remove takes a line out, wherever it stands.
local function remove(ls, L)
  for i = #ls, 1, -1 do
    if ls[i] == L then
      table.remove(ls, i)
      return
    end
  end
end

-- front is the line with the first command of a class; lines without one leave ls.
local function front(ls)
  while ls do
    local k = #ls
    local L = ls[k]
    if not L then return nil end
    if not head(L, (k > 1 or w.scored) and k * w.width) then
      ls[k] = nil
    else
      if k == 1 then return L end
      local s = tonumber(L.sc[L.i] or L.s)
      if s <= ls[k - 1].s then return L end
      L.s, ls[k] = s, nil
      insert(ls, L)
    end
  end
end

-- without is ls without the lines of a type.
local function without(ls, t)
  local r = {}
  for i = 1, #ls do
    if ls[i].t ~= t then r[#r + 1] = ls[i] end
  end
  return r
end

-- closelines brings the lines that were taken from up to date: those that are empty now go together, those whose next command is known move
-- together.
local function closelines()
  local empty, closed, moved, polled, gone = {}, {}, {}, {}, {}
  local function list(t, key)
    local l = t[key]
    if not l then
      l = {}
      t[key] = l
    end
    return l
  end
  local crowded = limited and LM.anyfiled()
  for i = 1, #w.lines do
    local L = w.lines[i]
    local key, next = P .. 'l|' .. L.line, nil
    if w.lane == 'i' and L.whole and not L.more and L.i > L.n and L.taken == L.off then
      empty[#empty + 1] = key
    else
      if L.taken > 0 then
        if L.whole then call('ZREMRANGEBYRANK', key, 0, L.taken - 1) else call('ZREM', key, unpack(L.out)) end
      end
      next = L.whole and L.i <= L.n and L.sc[L.i] or call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
    end
    local shut = false
    if crowded then
      local placed = rawget(LM, 'placed') or not full[L] and LM.placed
      if placed then shut = placed(L.line, next) else shut = nil end
      if shut == nil then shut = full[L] end
      shut = shut and next
      if not next then gone[#gone + 1] = L.line end
    end
    if shut then
      local l = list(moved, L.open)
      l[#l + 1], l[#l + 2] = '-' .. next, L.line
    elseif next then
      local l = list(moved, L.open)
      l[#l + 1], l[#l + 2] = next, L.line
      if w.lane == 'k' and tonumber(next) > run then soon(tonumber(next) - run) end
    else
      local l = list(closed, L.open)
      l[#l + 1] = L.line
    end
    if w.lane == 'k' then polled[L.open] = true end
    if w.fair then
      LM.fairset(sub(L.open, #P + 3), w.q, w.lane, L.g or string.match(LM.about(sub(L.line, 1, 16)).raw, '^[^ ]* [^ ]* ([^ ]*)'), L.line, not shut and next or nil)
    end
  end
  if #empty > 0 then call('DEL', unpack(empty)) end
  for open, l in pairs(moved) do call('ZADD', open, unpack(l)) end
  for open, l in pairs(closed) do call('ZREM', open, unpack(l)) end
  for key in pairs(polled) do nextpoll(key) end
  for i = 1, #gone do
    local F = LM.get(gone[i])
    if F then LM.unfile(F) end
  end
end
