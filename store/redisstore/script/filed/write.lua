-- write.lua: what came of decisions about lines and keys is written.
local passed = {} -- lines that let room stand

-- put appends to the list of k in t.
local function put(t, k, a, b)
  local l = t[k]
  if not l then
    l = {}
    t[k] = l
  end
  l[#l + 1] = a
  if b then l[#l + 1] = b end
end

-- place notes in t what puts a line where claims look, or out of their sight, if it stands in the other place.
local function place(t, F)
  if F.open == nil or state(F).open == F.stored then return end
  F.stored = F.open
  if not F.head then return end
  local name = nameof(F)
  put(t, name, fmt('%d', F.open and F.head or -F.head), F.line)
  if qcfg(F.q).fair then LM.fairline(name, F.q, F.lane, F.line, F.open and fmt('%d', F.head) or nil) end
end

-- placed says that the caller puts a line where it belongs, its head at that score; it answers whether it is closed, nil if nothing is known of it.
local function placed(line, head)
  local F = LINES[line]
  if not F or F.open == nil then return nil end
  F.stored, F.head = F.open, head and tonumber(head) or false
  return not F.open and F.key ~= nil
end

local function count1(key, f, d)
  if call('HINCRBY', key, f, d) <= 0 then call('HDEL', key, f) end
end

local function writekeys()
  local stand, gone, tokens, runs = {}, {}, {}, fmt('%d', run)
  for i = 1, #marked do
    local K = marked[i]
    if K.spent then tokens[#tokens + 1], tokens[#tokens + 2] = K.k, fmt('%.17g', K.b) end
    K.spent = nil
  end
  for i = 1, #stoods do
    local K = stoods[i]
    local t = K.stood
    if t > 0 then stand[#stand + 1], stand[#stand + 2] = K.k, t == run and runs or fmt('%d', t) else gone[#gone + 1] = K.k end
  end
  stoods = {}
  if #tokens > 0 then many('HSET', P .. 'lb', tokens) end
  if #gone > 0 then many('HDEL', P .. 'fs', gone) end
  if #stand > 0 then
    LM.stand(stand)
    standing = true
  end
end

local function writecounts()
  local set, gone, first, unswept = {}, {}, {}, {}
  for i = 1, #counted do
    local K = counted[i]
    local s = K.c > 0 and fmt('%d', K.c)
    local F = K.c == 1 and K.alone and LINES[K.alone]
    if F and F.key == K.k and not F.never then s = '1 ' .. F.line .. string.char(F.cost) .. nameof(F) end
    if s ~= K.lf then
      if s then
        put(set, K.name, K.v, s)
      else
        put(gone, K.name, K.v)
        put(unswept, K.name, K.v .. '|')
      end
      if s and not K.lf then put(first, K.name, '0', K.v .. '|') end
    end
    K.lf, K.counted = s, nil
  end
  counted = {}
  for name, l in pairs(first) do many('ZADD', P .. 'fv|' .. name, l) end
  for name, l in pairs(gone) do many('ZREM', P .. 'fv|' .. name, unswept[name]) end
  for name, l in pairs(set) do hset(P .. 'lf|' .. name, call('HLEN', P .. 'lf|' .. name), l) end
  for name, l in pairs(gone) do many('HDEL', P .. 'lf|' .. name, l) end
end

local function writelines()
  writekeys()
  if #changed == 0 then return end
  local fd, ft, fr, gone, out, into, lanes, wakes, moved = {}, {}, {}, {}, {}, {}, {}, {}, {}
  for i = 1, #changed do
    local F = changed[i]
    local line, key, was = F.line, F.key, F.was
    if key then
      if F.dirty then fd[#fd + 1], fd[#fd + 2] = line, packline(F) end
      if F.since then ft[#ft + 1], ft[#ft + 2] = line, fmt('%d', F.since) end
      if F.retest then fr[#fr + 1], fr[#fr + 2] = fmt('%d', F.retest), line end
      if key ~= was or F.anew or F.never ~= F.wasnever then put(into, key, fmt('%d', F.seq + (F.never and NEVER or 0)), line) end
    elseif was then
      gone[#gone + 1] = line
    end
    if was and key ~= was then put(out, was, line) end
    if (key == nil) ~= (was == nil) then
      local lane = F.q .. '|' .. F.lane
      lanes[lane] = (lanes[lane] or 0) + (key and 1 or -1)
    end
    place(moved, F)
    if F.woken and key and F.open or F.loud and not key then wakes['w|' .. F.lane .. '|' .. F.q] = true end
    F.was, F.wasnever = key, F.never
    F.anew, F.changed, F.dirty, F.woken, F.loud, F.retest, F.can, F.since = nil, nil, nil, nil, nil, nil, nil, nil
  end
  changed = {}
  for name, l in pairs(moved) do
    local key = P .. 'o|' .. name
    for i = 1, #l, 4000 do call('ZADD', key, 'XX', unpack(l, i, min(i + 3999, #l))) end
    if string.match(name, '|(.)') == 'k' then nextpoll(key) end
  end
  if first then
    call('HSET', KEYS[1], 'fsw', fmt('%d', run + RETEST))
    first = nil
  end
  if numbered then
    call('HSET', KEYS[1], 'fseq', fmt('%d', numbers))
    numbered = nil
  end
  if #gone > 0 then
    many('HDEL', P .. 'fd', gone)
    many('HDEL', P .. 'ft', gone)
    many('ZREM', P .. 'fr', gone)
  end
  if #fd > 0 then hset(P .. 'fd', call('HLEN', P .. 'fd'), fd) end
  if #ft > 0 then hset(P .. 'ft', call('HLEN', P .. 'ft'), ft) end
  if #fr > 0 then many('ZADD', P .. 'fr', fr) end
  for k, l in pairs(out) do many('ZREM', P .. 'fl|' .. k, l) end
  for k, l in pairs(into) do many('ZADD', P .. 'fl|' .. k, l) end
  writecounts()
  for i = 1, #partial do -- what was read of them is not what is there now
    if partial[i].tail then partial[i].queue = nil end
  end
  partial = {}
  for lane, d in pairs(lanes) do
    if d ~= 0 then count1(P .. 'fn', lane, d) end
  end
  for line in pairs(passed) do call('HINCRBY', P .. 'fp', line, 1) end
  passed = {}
  for m in pairs(wakes) do publish(m) end
end

-- hintall looks at those who wait for what was given up.
local function hintall()
  local ks = {}
  for i = 1, #marked do
    if marked[i].left then ks[#ks + 1], marked[i].left = marked[i], nil end
  end
  if #ks > 0 then
    look(ks)
    for i = 1, #ks do hint(ks[i]) end
  end
end
