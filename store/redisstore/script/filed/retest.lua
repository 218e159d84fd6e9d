-- retest.lua: what came of it is written, and filed lines are tested again in time.
local RETESTS = 200              -- lines that one step tests again
local again, passed = {}, {}     -- scores and lines of re-tests alone; lines that let room stand

-- place puts a line where claims look, or out of their sight, if it stands in the other place.
local function place(F)
  local shut = F.key ~= nil and not F.opened
  if shut == (F.shut == true) then return end
  F.shut = shut
  local name = F.q .. '|' .. F.lane .. F.code .. '|' .. F.ty
  local s = call('ZRANGE', P .. 'l|' .. F.line, 0, 0, 'WITHSCORES')[2]
  if shut then
    call('ZREM', P .. 'o|' .. name, F.line)
    if s then call('ZADD', P .. 'b|' .. name, s, F.line) end
  else
    call('ZREM', P .. 'b|' .. name, F.line)
    if s then call('ZADD', P .. 'o|' .. name, s, F.line) end
  end
  if F.lane == 'k' then nextpoll(P .. 'o|' .. name) end
  if qcfg(F.q).fair then
    LM.fairline(name, F.q, F.lane, F.line, not shut and s or nil)
  end
end

-- placed says whether a line is closed now, and whether it was. The caller puts it where it belongs.
local function placed(line)
  local F = LINES[line]
  if not F then return false, false end
  local was = F.shut
  F.shut = F.key ~= nil and not F.opened
  return F.shut, was
end

local function count(key, f, d)
  if call('HINCRBY', key, f, d) <= 0 then call('HDEL', key, f) end
end

local function writelines()
  if #changed == 0 and #again == 0 then return end
  local fd, fr, gone, out, into, off, lanes, wakes = {}, again, {}, {}, {}, {}, {}, {}
  for i = 1, #changed do
    local F = changed[i]
    local line, key, was = F.line, F.key, F.was
    local lane = F.q .. '|' .. F.lane
    if key then
      fd[#fd + 1], fd[#fd + 2] = line, packline(F)
      if F.retest then fr[#fr + 1], fr[#fr + 2] = fmt('%d', F.retest), line end
      if key ~= was or F.anew or F.never ~= F.wasnever then put(into, key, fmt('%d', F.seq + (F.never and NEVER or 0)), line) end
    elseif was then
      gone[#gone + 1] = line
    end
    if was and key ~= was then
      put(out, was, line)
      off[was] = (off[was] or 0) - 1
    end
    if key and key ~= was then off[key] = (off[key] or 0) + 1 end
    if (key == nil) ~= (was == nil) then lanes[lane] = (lanes[lane] or 0) + (key and 1 or -1) end
    place(F)
    if F.woken and key and F.opened or F.loud and not key then wakes['w|' .. F.lane .. '|' .. F.q] = true end
    F.was, F.wasnever = key, F.never
    F.anew, F.changed, F.woken, F.loud, F.retest, F.can = nil, nil, nil, nil, nil, nil
  end
  changed, again = {}, {}
  if numbered then
    call('HSET', KEYS[1], 'fseq', fmt('%d', numbers))
    numbered = nil
  end
  if #gone > 0 then
    call('HDEL', P .. 'fd', unpack(gone))
    call('ZREM', P .. 'fr', unpack(gone))
  end
  if #fd > 0 then call('HSET', P .. 'fd', unpack(fd)) end
  if #fr > 0 then call('ZADD', P .. 'fr', unpack(fr)) end
  for k, l in pairs(out) do call('ZREM', P .. 'fl|' .. k, unpack(l)) end
  for k, l in pairs(into) do call('ZADD', P .. 'fl|' .. k, unpack(l)) end
  for k, d in pairs(off) do
    local K = keyof(k)
    if d ~= 0 then count(P .. 'lf|' .. K.name, K.v, d) end
  end
  for i = 1, #partial do -- what was read of them is not what is there now
    if partial[i].tail then partial[i].queue = nil end
  end
  partial = {}
  for lane, d in pairs(lanes) do
    if d ~= 0 then count(P .. 'fn', lane, d) end
  end
  for line in pairs(passed) do call('HINCRBY', P .. 'fp', line, 1) end
  passed = {}
  for m in pairs(wakes) do publish(m) end
end

-- hints looks at those who wait for what was given up.
local function hintall()
  local i = 1
  while i <= #marked do
    local K = marked[i]
    if K.left then
      K.left = nil
      hint(K)
    end
    i = i + 1
  end
end

-- waitsfor says whether the limits in force still let the commands of a line wait for room under a key.
local function waitsfor(F, K)
  if F.ver == cv then return K.l ~= nil end
  local base = sub(F.line, 1, 16)
  local W = waits(about(base, call('HGET', P .. 'ld', base)), F.lane, F.code)
  for i = 1, #W do
    if W[i] == K then
      F.ver = cv
      change(F)
      return true
    end
  end
  return false
end

local function retestline(F)
  local K, was = keyof(F.key), F.never
  local ok, wait = room(K, F.cost)
  if not waitsfor(F, K) or was and not never(K, F.cost) then
    remove(F) -- what stopped it is gone
    F.loud = true
    return vacated(K)
  elseif not ok then
    F.retest = retestat(wait)
    if F.opened then
      F.opened = false
      change(F)
    elseif not F.changed then
      again[#again + 1], again[#again + 2] = fmt('%d', F.retest), F.line
    end
    if stood(K) ~= 0 then hint(K) end -- room for the oldest may have gone too
    return
  end
  F.retest = run + RETEST
  change(F)
  hint(K)
  if F.key ~= K.k then return end
  if F.opened and overdue(K) then -- it let room stand: it loses its place, and comes to the tail when it is next refused
    remove(F)
    passed[F.line] = true
    vacated(K)
  elseif F.opened and stood(K) ~= 0 then
    F.retest = stood(K) + RETEST
  elseif overdue(K) then -- the oldest did not use it: whoever waits may
    open(F)
  end
end

-- retest looks again at lines whose time has come. The members of their keys are read at once.
local function retest(lines)
  load(lines)
  local names, keys = {}, {}
  for i = 1, #lines do
    local F = get(lines[i])
    local K = F and keyof(F.key)
    if K and K.l and not K.l.r and not K.n and not K.asked then
      K.asked = true
      put(names, K.name, K.v)
      put(keys, K.name, K)
    end
  end
  for name, vs in pairs(names) do
    local n = call('HMGET', P .. 'lm|' .. name, unpack(vs))
    for i = 1, #vs do
      local K = keys[name][i]
      K.n = tonumber(n[i] or '0') + (K.d or 0)
    end
  end
  if call('EXISTS', P .. 'fs') == 0 then
    for _, l in pairs(keys) do
      for i = 1, #l do l[i].stood = l[i].stood or 0 end
    end
  end
  for i = 1, #lines do
    local F = get(lines[i])
    if F then retestline(F) else call('ZREM', P .. 'fr', lines[i]) end
  end
end

-- still tests lines whose key has no room, as is so with nearly all, on what is stored of them; it returns those to look at more closely.
local function still(lines)
  if #marked > 0 or #changed > 0 then return lines end
  limits()
  local raw, by, kept = call('HMGET', P .. 'fd', unpack(lines)), {}, {}
  local stand = call('EXISTS', P .. 'fs') == 1
  for i = 1, #lines do
    if raw[i] then
      local flags, _, _, cost, ver, key = sunpack('<BI6I6BI4I2c0', raw[i])
      if flags == 0 and ver == cv then
        local p = string.find(key, '|', 1, true)
        local name = sub(key, 1, p - 1)
        local g = by[name]
        if g == nil then
          local l = NAMES[name]
          g = l and not l.r and not l.c and not l.t and {l = l, n = 0, at = {}, costs = {}, vs = {}, own = {}, keys = {}} or false
          by[name] = g
        end
        if g then
          local n = g.n + 1
          g.n, g.at[n], g.costs[n], g.vs[n] = n, i, cost, sub(key, p + 1)
          if stand then g.keys[n] = key end
          if g.l.v then g.own[n] = '=' .. key end
        end
      end
    end
  end
  local fr, k, at = {}, 0, fmt('%d', retestat(0))
  for name, g in pairs(by) do
    if g then
      local members = call('HMGET', P .. 'lm|' .. name, unpack(g.vs))
      local own, stood = g.l.v and call('HMGET', P .. 'cfg', unpack(g.own)), stand and call('HMGET', P .. 'fs', unpack(g.keys))
      local max, costs = g.l.m or 0, g.costs
      for n = 1, g.n do
        if (members[n] or 0) + costs[n] > (own and own[n] and tonumber(own[n]) or max) and not (stood and stood[n]) then
          local i = g.at[n]
          kept[i], fr[k + 1], fr[k + 2] = true, at, lines[i]
          k = k + 2
        end
      end
    end
  end
  if k == 0 then return lines end
  call('ZADD', P .. 'fr', unpack(fr))
  local rest = {}
  for i = 1, #lines do
    if not kept[i] then rest[#rest + 1] = lines[i] end
  end
  return rest
end

-- tidy forgets, a few at a time, what is not needed any more; with the last of it the namespace is without limits again.
local function tidy()
  if call('EXISTS', P .. 'fp', P .. 'lb', P .. 'lo', P .. 'vb') > 0 then
    local more = LM.fairbuild()
    for _, line in ipairs(call('HRANDFIELD', P .. 'fp', 10)) do
      if call('EXISTS', P .. 'l|' .. line) == 0 then call('HDEL', P .. 'fp', line) end
    end
    for _, k in ipairs(call('HRANDFIELD', P .. 'lb', 10)) do
      local K = keyof(k)
      if not K.l or not K.l.r or bucket(K) <= run then call('HDEL', P .. 'lb', k) end
    end
    local name = call('SRANDMEMBER', P .. 'lo')
    if name and call('EXISTS', P .. 'lm|' .. name, P .. 'lf|' .. name) == 0 then call('SREM', P .. 'lo', name) end
    return more
  elseif #limits() == 0 and not anyfiled() then
    call('HDEL', KEYS[1], 'lim')
    limited = false
  end
end

-- retests tests lines again, and tidies up.
local function retests()
  local lines, more = call('ZRANGEBYSCORE', P .. 'fr', '-inf', fmt('%d', run), 'LIMIT', 0, RETESTS + 1), false
  if #lines > RETESTS then lines[#lines], more = nil, true end
  if #lines > 0 then lines = still(lines) end
  if #lines > 0 then
    retest(lines)
    finish()
  end
  more = tidy() or more
  local h = call('ZRANGE', P .. 'fr', 0, 0, 'WITHSCORES')[2]
  return more, h and tonumber(h) - run
end
