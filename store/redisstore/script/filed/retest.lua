-- retest.lua: filed lines are tested again, whoever has made room or not.
local RETESTS = 200              -- lines that one step tests again
local SWEEP = 400                -- keys that one step of a sweep looks at

-- waitsfor says whether the limits in force still let the commands of a line wait for room under a key.
local function waitsfor(F, K)
  if F.ver == cv then return K.l ~= nil end
  local base = sub(F.line, 1, 16)
  local W = waits(about(base, call('HGET', P .. 'ld', base)), F.line)
  for i = 1, #W do
    if W[i] == K then
      F.ver = cv
      change(F, true)
      return true
    end
  end
  return false
end

-- pass takes the place of a line that has let room stand: it comes to the tail when it is next refused.
local function pass(F, K)
  remove(F)
  passed[F.line] = true
  vacated(K)
end

local function retestline(F)
  local K, was = keyof(F.key), F.never
  local ok, wait = room(K, F.cost)
  state(F)
  if not waitsfor(F, K) or was and not never(K, F.cost) then
    remove(F) -- what stopped it is gone
    F.loud = true
    return vacated(K)
  elseif not ok then
    F.open = false
    if not quiet(K) then F.retest = retestat(wait) end
    change(F)
    if stood(K) ~= 0 then hint(K) end -- room for the oldest may have gone too
    return
  end
  if F.open or not quiet(K) then F.retest = run + RETEST end
  change(F)
  hint(K)
  if F.key ~= K.k then return end
  if F.open and overdue(K) then
    pass(F, K)
  elseif F.open and stood(K) ~= 0 then
    F.retest = stood(K) + RETEST
  elseif overdue(K) then -- the oldest did not use it: whoever waits may
    open(F, K)
  end
end

-- retest looks again at lines, and forgets the re-tests that are needed no more.
local function retest(lines)
  load(lines)
  local fs, gone = {}, {}
  for i = 1, #lines do
    local F = get(lines[i])
    if F then fs[#fs + 1] = F end
  end
  states(fs)
  for i = 1, #lines do
    local F = get(lines[i])
    if F then retestline(F) end
    if not (F and F.retest) then gone[#gone + 1] = lines[i] end
  end
  if #gone > 0 then call('ZREM', P .. 'fr', unpack(gone)) end
end

-- stale looks at a key under which room has stood for a second: lines that are open since then lose their places, the others may have the room.
-- It says whether there are more of them.
local function stale(K, from)
  local lines = call('ZRANGE', P .. 'fl|' .. K.k, from, from + RETESTS - 1)
  if #lines == 0 then return nil end
  load(lines)
  local at, fs, left = call('ZMSCORE', P .. 'fr', unpack(lines)), {}, 0
  for i = 1, #lines do
    local F = get(lines[i])
    if F and F.key == K.k and not at[i] and not F.never then fs[#fs + 1] = F end
  end
  states(fs)
  local open0 = {}
  for i = 1, #fs do open0[i] = fs[i].open end
  for i = 1, #fs do
    local F = fs[i]
    if F.key == K.k then
      if not room(K, F.cost) then
        F.open = false
        change(F)
      elseif open0[i] then
        pass(F, K)
        left = left + 1
      elseif not F.open then
        open(F, K)
      end
    end
  end
  return #lines == RETESTS and from + RETESTS - left or nil
end

-- standings looks at the keys under which room stands, those first that are to be looked at now. It answers in how many ms to look again,
-- nil if room stands nowhere.
local function standings()
  local next, all = 1e9, call('HLEN', P .. 'fs') <= SWEEP
  local r = all and call('HGETALL', P .. 'fs') or call('HRANDFIELD', P .. 'fs', SWEEP, 'WITHVALUES')
  if #r == 0 then return nil end
  for i = 1, #r, 2 do
    local K = keyof(r[i])
    count(K)
    K.stood = K.stood or since(r[i + 1])
    if K.stood ~= 0 and run - K.stood < RETEST then
      next = min(next, K.stood + RETEST - run)
    elseif nobody(K) then
      setstood(K, 0)
    elseif not (K.l and not K.l.r) then -- each of its lines has a re-test
      next = min(next, RETEST)
    else
      local from = string.match(r[i + 1], ' (%d+)$')
      local more = stale(K, tonumber(from or '0'))
      if K.c > 0 and K.stood ~= 0 then
        next = min(next, more and 1 or RETEST)
        if more or from then
          call('HSET', P .. 'fs', K.k, fmt('%d', K.stood) .. (more and ' ' .. fmt('%d', more) or ''))
        end
      end
    end
  end
  if not all then next = min(next, GRID) end
  return next <= RETEST and next or nil
end

-- roomy answers those values in order, | behind each as before their members, which have fewer than most members, without the |. Neighbours are counted
-- together, if there are not many more members than values.
local function roomy(name, values, most)
  local key, first, last, some = P .. 'm|' .. name, '[' .. values[1], '(' .. sub(values[#values], 1, -2) .. '}', {}
  if call('ZLEXCOUNT', key, first, last) <= 4 * #values then
    local n = {}
    for _, m in ipairs(call('ZRANGEBYLEX', key, first, last)) do
      local v = sub(m, 1, string.find(m, '|', 1, true))
      n[v] = (n[v] or 0) + 1
    end
    for i = 1, #values do
      if (n[values[i]] or 0) < most(i) then some[#some + 1] = sub(values[i], 1, -2) end
    end
  else
    for i = 1, #values do
      local v = sub(values[i], 1, -2)
      if call('ZLEXCOUNT', key, '[' .. v .. '|', '(' .. v .. '}') < most(i) then some[#some + 1] = v end
    end
  end
  return some
end

-- sweep looks at some keys under which lines are filed: what has room opens its oldest line, whether anybody has made it or not. All of them have
-- their turn within a second. It answers in how many ms the next are due.
local function sweep(due, at)
  local names, pieces = {}, 0
  for i = 1, #limits() do
    if quiet({l = LS[i]}) then
      local n = call('ZCARD', P .. 'fv|' .. LS[i].n)
      if n > 0 then names[#names + 1], pieces = LS[i].n, pieces + ceil((n + 1) / SWEEP) end -- a full last piece does not know that it is the last
    end
  end
  local step = max(1, floor(RETEST / max(1, pieces)))
  local name, from = string.match(at or '', '^([^|]*)|(.*)$')
  local i = 1
  while i <= #names and names[i] ~= name do i = i + 1 end
  if i > #names then i, from = 1, '-' end
  if #names > 0 then
    name = names[i]
    local l, values = NAMES[name], call('ZRANGEBYLEX', P .. 'fv|' .. name, from, '+', 'LIMIT', 0, SWEEP)
    if #values > 0 then
      local own = {}
      if l.v then
        for j = 1, #values do own[j] = '=' .. name .. '|' .. sub(values[j], 1, -2) end
        own = call('HMGET', P .. 'cfg', unpack(own))
      end
      for _, v in ipairs(roomy(name, values, function(j) return tonumber(own[j] or l.m or 0) or 0 end)) do
        local K = keyin(l, name, v)
        count(K)
        hint(K)
      end
    end
    if #values < SWEEP then name, from = names[i % #names + 1], '-' else from = '(' .. values[#values] end
    call('HSET', KEYS[1], 'fsc', name .. '|' .. from)
  end
  due = max(due, run - RETEST) + step
  call('HSET', KEYS[1], 'fsw', fmt('%d', due))
  return due - run
end

-- reconfigured tests some lines again after a change of the configuration.
local function reconfigured(cursor)
  local r = call('HSCAN', P .. 'fd', cursor, 'COUNT', RETESTS)
  local lines = {}
  for i = 1, #r[2], 2 do lines[#lines + 1] = r[2][i] end
  if #lines > 0 then retest(lines) end
  if r[1] == '0' then call('HDEL', KEYS[1], 'fcv') else call('HSET', KEYS[1], 'fcv', r[1]) end
  return r[1] ~= '0'
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
    if name and call('EXISTS', P .. 'm|' .. name, P .. 'lf|' .. name) == 0 then call('SREM', P .. 'lo', name) end
    return more
  elseif #limits() == 0 and not anyfiled() then
    call('HDEL', KEYS[1], 'lim')
    limited = false
  end
end

-- retests tests lines again, and tidies up. It answers whether there is more to do, and in how many ms there will be.
local function retests()
  local more, next = false, RETEST
  if anyfiled() then
    local at = call('HMGET', KEYS[1], 'fst', 'fsw', 'fsc', 'fcv')
    if at[4] then more = reconfigured(at[4]) end
    local lines = call('ZRANGEBYSCORE', P .. 'fr', '-inf', fmt('%d', run), 'LIMIT', 0, RETESTS + 1)
    if #lines > RETESTS then lines[#lines], more = nil, true end
    if #lines > 0 then retest(lines) end
    if at[1] then
      local d = tonumber(at[1]) - run
      if d <= 0 then
        d = standings()
        if d then call('HSET', KEYS[1], 'fst', fmt('%d', run + d)) else call('HDEL', KEYS[1], 'fst') end
      end
      next = min(next, d or next)
    end
    local d = at[2] and tonumber(at[2]) - run or 0
    if d <= 0 then d = sweep(run + d, at[3]) end
    next = min(next, d)
    LM.finish()
    local h = call('ZRANGE', P .. 'fr', 0, 0, 'WITHSCORES')[2]
    if h then next = min(next, tonumber(h) - run) end
  end
  more = tidy() or more
  return more or next <= 0, max(1, next)
end
