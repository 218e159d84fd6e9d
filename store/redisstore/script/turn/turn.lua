-- turn.lua: fair turns between the groups of a queue and lane, by virtual time: whose next turn starts first is served, and its next one starts a
-- turn later, divided by its weight. Beside the open lines of a fair queue stand its groups by the start of their next turn, and for each
-- group its open lines that have something now; polls that are not due stand apart. A name is queue|lane and letter|type, as of open lines.
local TIMES, STARTS, WEIGHTS = {}, {}, {} -- virtual time by queue|lane; starts that lie ahead of it, by queue|lane and group; weights

local function virtual(at)
  TIMES[at] = TIMES[at] or tonumber(call('HGET', P .. 'vt', at) or '0')
  return TIMES[at]
end

local function starts(at)
  local l = STARTS[at]
  if not l then
    l = {}
    STARTS[at] = l
  end
  return l
end

-- start is when the next turn of a group begins.
local function start(at, g)
  local l = starts(at)
  l[g] = l[g] or tonumber(call('ZSCORE', P .. 'vs|' .. at, g) or '0')
  return max(virtual(at), l[g])
end

-- served gives a group a turn.
local function served(q, lane, g)
  local at, k = q .. '|' .. lane, q .. '|' .. g
  local s = start(at, g)
  WEIGHTS[k] = WEIGHTS[k] or tonumber(call('HGET', P .. 'cfg', '~' .. k) or '1')
  TIMES[at], starts(at)[g] = s, s + 1 / WEIGHTS[k]
end

-- fairset says that a line of a fair queue is open with its head at s, or not open.
local function fairset(name, q, lane, g, line, s)
  local key = P .. 'vl|' .. name .. '|' .. g
  if s and (lane == 'i' or tonumber(s) <= run) then
    if lane == 'k' then call('ZREM', P .. 'vd|' .. name, line) end
    if call('ZADD', key, s, line) == 1 and call('ZCARD', key) == 1 then
      call('ZADD', P .. 'vg|' .. name, 'NX', fmt('%.17g', start(q .. '|' .. lane, g)), g)
    end
    return
  end
  if s then call('ZADD', P .. 'vd|' .. name, s, line) elseif lane == 'k' then call('ZREM', P .. 'vd|' .. name, line) end
  if call('ZREM', key, line) == 1 and call('EXISTS', key) == 0 then call('ZREM', P .. 'vg|' .. name, g) end
end

-- fairhead does that for a line that is open if it has a head.
local function fairhead(name, q, lane, g, line)
  fairset(name, q, lane, g, line, call('ZRANGE', P .. 'l|' .. line, 0, 0, 'WITHSCORES')[2])
end

-- groupsof are the groups of lines, false where a line has no definition.
local function groupsof(lines)
  local bases, gs = {}, {}
  for i = 1, #lines do bases[i] = sub(lines[i], 1, 16) end
  local raw = call('HMGET', P .. 'ld', unpack(bases))
  for i = 1, #lines do gs[i] = raw[i] and string.match(raw[i], '^[^ ]+ [^ ]+ ([^ ]*) ') or false end
  return gs
end

-- fairline is fairset for a line whose group is not known.
local function fairline(name, q, lane, line, s)
  local g = groupsof({line})[1]
  if g then fairset(name, q, lane, g, line, s) end
end

-- falldue lets polls take part whose time has come; it returns whether there may be more, and the first that is not due.
local function falldue(name, q)
  local r = call('ZRANGEBYSCORE', P .. 'vd|' .. name, '-inf', fmt('%d', run), 'WITHSCORES', 'LIMIT', 0, 200)
  if #r > 0 then
    local lines = {}
    for i = 1, #r, 2 do lines[#lines + 1] = r[i] end
    local gs = groupsof(lines)
    for i = 1, #lines do
      if gs[i] then fairset(name, q, 'k', gs[i], lines[i], r[2 * i]) else call('ZREM', P .. 'vd|' .. name, lines[i]) end
    end
  end
  local h = call('ZRANGE', P .. 'vd|' .. name, 0, 0, 'WITHSCORES')[2]
  return #r == 400, h and tonumber(h)
end

-- groups are up to n groups of a name whose next turns start first. What was noted for them is brought up to date: a group may have been
-- served in another name.
local function groups(name, at, n)
  local gs
  for _ = 1, 3 do
    local r, stale = call('ZRANGE', P .. 'vg|' .. name, 0, n - 1, 'WITHSCORES'), {}
    gs = {}
    for i = 1, #r, 2 do gs[#gs + 1] = r[i] end
    if #gs == 0 then return gs end
    local last, l = call('ZMSCORE', P .. 'vs|' .. at, unpack(gs)), starts(at)
    for i = 1, #gs do
      l[gs[i]] = l[gs[i]] or tonumber(last[i] or '0')
      if l[gs[i]] > tonumber(r[2 * i]) then stale[#stale + 1], stale[#stale + 2] = fmt('%.17g', l[gs[i]]), gs[i] end
    end
    if #stale == 0 then return gs end
    call('ZADD', P .. 'vg|' .. name, 'XX', unpack(stale))
  end
  return gs
end

-- writeturns keeps the virtual time and the starts of groups that were served; names are those in which they may have lines.
local function writeturns(at, gs, names)
  local l, v = starts(at), virtual(at)
  call('HSET', P .. 'vt', at, fmt('%.17g', v))
  local z = {}
  for i = 1, #gs do z[2 * i - 1], z[2 * i] = fmt('%.17g', l[gs[i]]), gs[i] end
  call('ZADD', P .. 'vs|' .. at, unpack(z))
  for name in pairs(names) do call('ZADD', P .. 'vg|' .. name, 'XX', unpack(z)) end
  local old = call('ZRANGEBYSCORE', P .. 'vs|' .. at, '-inf', fmt('%.17g', v), 'LIMIT', 0, #gs + BOUND)
  if #old > 0 then call('ZREM', P .. 'vs|' .. at, unpack(old)) end
end

-- rebuild makes, a piece at a time, the groups of a name anew, or takes them away, after its queue has become fair, or ceased to be.
local function rebuild()
  local name = call('HRANDFIELD', P .. 'vb')
  if not name then return false end
  local at = call('HGET', P .. 'vb', name)
  local q, lane = string.match(name, '^([^|]*)|(.)')
  if at == 'd' then
    local gs = call('ZRANGE', P .. 'vg|' .. name, 0, BOUND - 1)
    if #gs > 0 then
      local keys = {}
      for i = 1, #gs do keys[i] = P .. 'vl|' .. name .. '|' .. gs[i] end
      call('UNLINK', unpack(keys))
      call('ZREM', P .. 'vg|' .. name, unpack(gs))
    end
    if #gs < BOUND then
      call('UNLINK', P .. 'vd|' .. name)
      if qcfg(q).fair then call('HSET', P .. 'vb', name, '0') else call('HDEL', P .. 'vb', name) end
    end
  else
    local r = call('ZSCAN', P .. 'o|' .. name, at, 'COUNT', BOUND)
    local lines = {}
    for i = 1, #r[2], 2 do
      if tonumber(r[2][i + 1]) >= 0 then lines[#lines + 1] = r[2][i] end -- the others wait for limits
    end
    if #lines > 0 then
      local gs = groupsof(lines)
      for i = 1, #lines do
        if gs[i] then fairhead(name, q, lane, gs[i], lines[i]) end
      end
    end
    if r[1] == '0' then call('HDEL', P .. 'vb', name) else call('HSET', P .. 'vb', name, r[1]) end
  end
  return call('EXISTS', P .. 'vb') == 1
end

-- refair notes that a queue has become fair, or ceased to be.
local function refair(q)
  for _, f in ipairs(call('HKEYS', P .. 'n|' .. q)) do
    local lane, ty = sub(f, 1, 1), sub(f, 2)
    if (lane == 'i' or lane == 'k') and ty ~= '' then
      for code = 0, 6 do
        local name = q .. '|' .. lane .. code .. '|' .. ty
        if call('EXISTS', P .. 'o|' .. name, P .. 'vg|' .. name, P .. 'vd|' .. name) > 0 then call('HSET', P .. 'vb', name, 'd') end
      end
    end
  end
end
