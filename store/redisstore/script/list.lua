#!lua flags=no-writes
-- list.lua: one page of commands of a queue and a status; the Go side filters further.
-- KEYS  the guard pair
-- ARGV  queue, status, place (0 any), codes of finished lists by commas, limit, cursor (section, hash cursor, line, score, member), type, group
-- reply {{wall, run, lease, config version}, cursor ('' at the end), ids, what read.lua says}
-- include: base read
local err = begin(false, true)
if err then return err end
local q, st, place, limit = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5])
local ids, looked = {}, 0
local sec, hcur, line, score, member = string.match(ARGV[6], '^(%S) (%S+) (%S+) (%S+) (%S+)$')

-- after is the rank of the first member behind (score, member): by score and member, rising, or falling with rev.
local function after(key, s, m, rev)
  local lo, hi
  if rev then
    lo, hi = call('ZCOUNT', key, '(' .. s, '+inf'), call('ZCOUNT', key, s, '+inf')
  else
    lo, hi = call('ZCOUNT', key, '-inf', '(' .. s), call('ZCOUNT', key, '-inf', s)
  end
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    local x = call(rev and 'ZREVRANGE' or 'ZRANGE', key, mid, mid)[1]
    if rev and x >= m or not rev and x <= m then lo = mid + 1 else hi = mid end
  end
  return lo
end

if st > 2 then
  local all = {}
  for code in string.gmatch(ARGV[4], '[^,]+') do
    local key = P .. 'f|' .. q .. '|' .. code
    local from = sec and after(key, score, member, true) or 0
    local r = call('ZREVRANGE', key, from, from + limit - 1, 'WITHSCORES')
    for i = 1, #r, 2 do all[#all + 1] = {r[i], tonumber(r[i + 1]), r[i + 1]} end
  end
  table.sort(all, function(a, b) return a[2] > b[2] or a[2] == b[2] and a[1] > b[1] end)
  local cursor = ''
  for i = 1, min(limit, #all) do ids[i] = all[i][1] end
  if #ids == limit then cursor = 'f 0 - ' .. all[limit][3] .. ' ' .. all[limit][1] end
  return {{wall, run, lease, cv}, cursor, ids, read(ids, true)}
end

local lane = st == 1 and 'i' or 'k'
local ty, g = ARGV[7], ARGV[8]
if not sec then sec, hcur, line, score, member = 'l', '0', '-', '-', '-' end
local function stop(...) return table.concat({...}, ' ') end
local cursor

-- walk takes what is left of a sorted set.
local function walk(key, s, name, h)
  local from = score ~= '-' and after(key, score, member, false) or 0
  score, member = '-', '-'
  local r = call('ZRANGE', key, from, from + limit - #ids - 1, 'WITHSCORES')
  for i = 1, #r, 2 do ids[#ids + 1] = r[i] end
  if #ids >= limit then cursor = stop(s, h, name, r[#r], r[#r - 1]) end
end

if sec == 'l' then
  while place == 0 or place == 1 do
    local r = call('HSCAN', P .. 'ld', hcur, 'COUNT', 50)
    local lines = {}
    for i = 1, #r[2], 2 do
      local lq, lt, lg = string.match(r[2][i + 1], '^([^ ]+) ([^ ]+) ([^ ]*) ')
      if lq == q and (ty == '' or ty == lt) and (g == '' or g == lg) then
        for cl = 0, 6 do lines[#lines + 1] = r[2][i] .. lane .. cl end
      end
    end
    looked = looked + #r[2] / 2
    table.sort(lines)
    for _, l in ipairs(lines) do
      if line == '-' or l >= line then
        if l ~= line then score, member = '-', '-' end
        line = '-'
        walk(P .. 'l|' .. l, 'l', l, hcur)
        if cursor then break end
      end
    end
    if cursor then break end
    hcur, line, score, member = r[1], '-', '-', '-'
    if hcur == '0' then break end
    if looked > 1000 then
      cursor = stop('l', hcur, '-', '-', '-')
      break
    end
  end
  if not cursor then sec, hcur, score, member = 'r', '0', '-', '-' end
end
for _, k in ipairs({'r', 'n'}) do
  if not cursor and sec == k then
    if st == 1 and (place == 0 or place == 2) then walk(P .. 's' .. k, k, '-', '0') end
    if not cursor then sec, score, member = k == 'r' and 'n' or 't', '-', '-' end
  end
end
if not cursor and sec == 't' and (place == 0 or place == 3) then
  while true do
    local r = call('HSCAN', P .. 'T', hcur, 'COUNT', 100)
    local found = {}
    for i = 1, #r[2], 2 do found[#found + 1] = r[2][i] end
    looked = looked + #found
    table.sort(found)
    for _, id in ipairs(found) do
      if member == '-' or id > member then
        if #ids >= limit then
          cursor = stop('t', hcur, '-', '0', ids[#ids])
          break
        end
        ids[#ids + 1] = id
      end
    end
    if cursor then break end
    hcur, member = r[1], '-'
    if hcur == '0' then break end
    if #ids >= limit or looked > 1000 then
      cursor = stop('t', hcur, '-', '-', '-')
      break
    end
  end
end
return {{wall, run, lease, cv}, cursor or '', ids, read(ids, true)}
