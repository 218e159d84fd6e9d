-- place.lua: the indexes that follow from a record: its line, its times, its lease, its end.

-- defs are the definitions of lines by their base: q, ty, g and the whole text.
local defs = {}
local function parsedef(raw)
  local q, ty, g = string.match(raw, '^([^ ]+) ([^ ]+) ([^ ]*) ')
  return q and {q = q, ty = ty, g = g, raw = raw}
end

local function def(base)
  local d = defs[base]
  if d == nil then
    local raw = call('HGET', P .. 'ld', base)
    d = raw and parsedef(raw) or false
    defs[base] = d
  end
  return d
end

-- setaside takes an id whose record cannot be read out of every index that does not need the record to find it.
local function setaside(id, line, openkey)
  if limited then
    local t = call('HGET', P .. 'T', id)
    local h = t and string.match(t, '^%S+ %S+ %d+ (.*)$')
    if h then lim().released(id, h, '') end
  end
  add2(wza, P .. 'lost', wall, id)
  add1(wzr, P .. 'L', id)
  add1(whd, P .. 'T', id)
  add1(wzr, P .. 'sr', id)
  add1(wzr, P .. 'sn', id)
  add1(wzr, P .. 'x', id)
  add1(wzr, P .. 'xl', id)
  add1(wzr, P .. 'z', id)
  add1(wsr, P .. 'cx', id)
  add1(wsr, P .. 'od', id)
  if line then add1(wzr, P .. 'l|' .. line, id) end
end

-- load decodes a record; nil if there is none or it is none. t is the value of its lease, if it has one.
local function load(id, s, t)
  if not s then return nil end
  local ok, c = pcall(decode, id, s)
  if not ok then return nil end
  if c.tomb then c.d = parsedef(c.tomb) else c.d = def(c.ln) end
  if not c.d then return nil end
  if t then
    local name, owner, at, h = string.match(t, '^(%d+%.%w+) (%S+) (%d+) ?(.*)$')
    if not name or c.st > 2 then return nil end
    c.ht = h
    c.leased, c.name, c.token, c.owner, c.leasedat = true, name, tonumber(string.match(name, '^%d+')), owner, tonumber(at)
  end
  c.h0 = c.ht
  return c
end

local function linename(c) return c.ln .. (c.st == 1 and 'i' or 'k') .. class(c) end

local function score(c)
  if c.st == 2 then return c.due end
  if qcfg(c.d.q).order == 1 then
    if c.dl == 0 then return 14516236800000 + c.seq end
    return c.dl
  end
  return c.pr * 17592186044416 + c.seq
end

-- xscore is the server time at which time alone ends or changes a command at rest; 0 is never.
local function xscore(c)
  if c.st == 2 and c.ca ~= 0 then return c.cu end
  local at = c.dl
  if c.sb ~= 0 and c.starts == 0 and (at == 0 or c.sb < at) then at = c.sb end
  return at
end

local function touch(line, c)
  if not touched[line] then
    local lane = c.st == 1 and 'i' or 'k'
    touched[line] = {open = openkey(c.d.q, lane, sub(line, -1), c.d.ty), lane = lane, q = c.d.q, g = c.d.g}
  end
end

-- enter puts a live command at rest into its indexes.
local function enter(c)
  local id, n = c.id, P .. 'n|' .. c.d.q
  if c.pl == 1 then
    local line = linename(c)
    add2(wza, P .. 'l|' .. line, score(c), id)
    touch(line, c)
    if c.st == 1 then
      incr(n, 'i' .. c.d.ty, 1)
      incr(n, 'p', 1)
    else
      incr(n, 'k' .. c.d.ty, 1)
    end
  else
    if c.due > run or c.nb <= wall then
      add2(wza, P .. 'sr', c.due, id)
    else
      add2(wza, P .. 'sn', c.nb, id)
    end
    incr(n, 's', 1)
    incr(n, 'p', 1)
  end
  local x = xscore(c)
  if x ~= 0 then add2(wza, P .. 'x', x, id) end
end

-- leave takes a live command out of the indexes of its place. Call it before the record changes.
local function leave(c)
  local id, n = c.id, P .. 'n|' .. c.d.q
  if c.leased then
    add1(wzr, P .. 'L', id)
    add1(whd, P .. 'T', id)
    if c.dl ~= 0 then add1(wzr, P .. 'xl', id) end
    if c.ca ~= 0 then add1(wsr, P .. 'cx', id) end
    if c.over then add1(wsr, P .. 'od', id) end
    incr(n, (c.st == 1 and 'I' or 'K') .. c.d.ty, -1)
    return
  end
  if c.pl == 1 then
    local line = linename(c)
    add1(wzr, P .. 'l|' .. line, id)
    touch(line, c)
    if c.st == 1 then
      incr(n, 'i' .. c.d.ty, -1)
      incr(n, 'p', -1)
    else
      incr(n, 'k' .. c.d.ty, -1)
    end
  else
    add1(wzr, P .. 'sr', id)
    add1(wzr, P .. 'sn', id)
    incr(n, 's', -1)
    incr(n, 'p', -1)
  end
  if xscore(c) ~= 0 then add1(wzr, P .. 'x', id) end
end

local function finkey(c)
  local code = c.st == 3 and 's' or c.st == 5 and 'c' or c.reason
  return P .. 'f|' .. c.d.q .. '|' .. code
end

local function purgeat(c)
  local keep = c.ret
  if keep == 0 then keep = qcfg(c.d.q).keepms end
  return c.ended + max(keep, 600000)
end

local function stripatend(c) return c.ret < 0 or c.ret == 0 and qcfg(c.d.q).keepms < 0 end

-- entomb leaves nothing of an ended command but its tombstone. No list shows it; it goes when its time is over.
local function entomb(c)
  c.tomb, c.p, c.px, c.s, c.sx, c.r, c.rx, c.m, c.e, c.ex, c.ev, c.en = c.d.raw, nil, nil, nil, nil, nil, nil, nil, nil, nil, '', 0
  c.purge = c.ended + 600000
  save(c)
  add1(wtomb, c.purge, c.id)
  incr(P .. 'lr', c.ln, -1)
end

-- unlive takes away what a command holds only while it lives.
local function unlive(c)
  if c.d.g ~= '' then incr(P .. 'g', c.d.g, -1) end
  if c.uk ~= '' then add1(whd, P .. 'u', c.uk) end
  ended[#ended + 1] = c.id
end

-- finish does what follows from an end: the outbox, or the lists of what is finished.
local function finish(c)
  unlive(c)
  c.purge = 0
  if c.nt == '' or c.pushed then
    c.purge = purgeat(c)
    if stripatend(c) then return entomb(c) end
    add2(wza, P .. 'z', c.purge, c.id)
  else
    local seq = fmt('%d', call('HINCRBY', KEYS[1], 'oseq', 1))
    add2(wza, P .. 'ob|' .. c.nt, seq, seq)
    add2(whs, P .. 'oi|' .. c.nt, seq, c.id)
    add1(wsa, P .. 'topics', c.nt)
    wake('o|' .. c.nt)
  end
  add2(wza, finkey(c), c.ended, c.id)
  incr(P .. 'n|' .. c.d.q, 'f', 1)
  save(c)
end

-- released ends the memberships that c had when it was loaded and has no more.
local function released(c)
  if c.h0 ~= c.ht then
    lim().released(c.id, c.h0, c.ht)
    c.h0 = c.ht
  end
end

-- follow writes a command after a decision; leave was called before it.
local function follow(c)
  released(c)
  if c.st > 2 then return finish(c) end
  if not c.leased then enter(c) end
  save(c)
end

-- unfinish takes a finished record out of the lists.
local function unfinish(c)
  add1(wzr, finkey(c), c.id)
  if c.purge ~= 0 then add1(wzr, P .. 'z', c.id) end
  incr(P .. 'n|' .. c.d.q, 'f', -1)
end

-- forget removes a finished record, tombstones too.
local function forget(c)
  if not c.tomb then
    unfinish(c)
    incr(P .. 'lr', c.ln, -1)
  end
  erase(c)
end

local function purgeable(c) return c.st > 2 and c.purge ~= 0 and wall >= c.purge end

-- ifended ends a command at rest whose time is over.
local function ifended(c)
  if isended(c) then
    leave(c)
    expire(c, qcfg(c.d.q))
    follow(c)
    return true
  end
end

-- holder is the live command that holds a unique key other than id: its id and status, or nil. One that time has ended holds nothing.
local function holder(key, id)
  local h = call('HGET', P .. 'u', key)
  if not h or h == id then return nil end
  local c = load(h, record(h), call('HGET', P .. 'T', h))
  if not c or c.st > 2 then return nil end
  if ifended(c) then
    if c.st > 2 then return nil end
  end
  return h, c.st
end

-- homeless puts a record back that an index of leases names and that has no lease.
local function homeless(id, s)
  zrem('L', id)
  local c = load(id, s)
  if c and c.st <= 2 then
    local at = c.pl == 1 and call('ZSCORE', P .. 'l|' .. linename(c), id) or c.pl == 2 and (call('ZSCORE', P .. 'sr', id) or call('ZSCORE', P .. 'sn', id))
    if not at then enter(c) end
  end
end

-- beat is when the heartbeat of a worker runs out; zero for one that is not known.
local function beat(worker) return tonumber(call('ZSCORE', P .. 'W', worker) or 0) end

-- unbox takes an ended command out of its outbox. The work is bounded by the entries of the topic that are read here.
local function unbox(c)
  local cur = '0'
  for _ = 1, 100 do
    local r = call('HSCAN', P .. 'oi|' .. c.nt, cur, 'COUNT', 100)
    for i = 1, #r[2], 2 do
      if string.match(r[2][i + 1], '^[^ ]+') == c.id then
        local seq = r[2][i]
        add1(whd, P .. 'oi|' .. c.nt, seq)
        zrem('ob|' .. c.nt, seq)
        zrem('oh|' .. c.nt, seq)
        return
      end
    end
    cur = r[1]
    if cur == '0' then return end
  end
end

-- newline gives a command that was moved its new line.
local function newline(c, raw)
  c.d = parsedef(raw)
  defs[c.ln] = c.d
  newdef[c.ln] = raw
  incr(P .. 'lr', c.ln, 1)
end

-- relive gives an ended command back what it holds while it lives.
local function relive(c)
  if c.d.g ~= '' then incr(P .. 'g', c.d.g, 1) end
  if c.uk ~= '' then add2(whs, P .. 'u', c.uk, c.id) end
end
