-- line.lua: a line that is filed under a key. It stands among the open ones at its head's score if it is open, and below 0 as far, out of sight of claims,
-- if it is closed.
local RETEST = 1000              -- ms: see left.lua
local GRID = 50                  -- ms: re-tests that nothing is to be expected of are made together
local NEVER = 1125899906842624   -- lines that never fit stand behind all others
local LINES, changed = {}, {}    -- filed lines by name, false if it is not filed; those that writelines has to look at
local counted, stoods = {}, {}   -- keys of which the number of lines may change, and since when room stands
local numbers, numbered          -- filings so far
local partial = {}               -- keys of which a part of the queue was read
local first                      -- no line was filed before
local standing                   -- whether room stands under any key
local keyof, mark, keyin, keysof, members, waits = LM.keyof, LM.mark, LM.keyin, LM.keysof, LM.members, LM.waits
LM.alreadyshut(shutnow)

local function unpackline(line, s)
  local flags, seq, cost, ver, key, q, ty = sunpack('<BI6BI4I2c0Bc0Bc0', s)
  return {line = line, lane = sub(line, 17, 17), code = sub(line, 18, 18), since = nil, seq = seq, cost = cost, ver = ver, q = q, ty = ty,
    key = key, was = key, never = flags > 1, wasnever = flags > 1, -- as it is stored
    open = nil, stored = nil, head = nil, changed = nil, dirty = nil, retest = nil, can = nil, e = nil}
end

local function packline(F)
  return spack('<BI6BI4I2c0Bc0Bc0', F.never and 2 or 0, F.seq, F.cost, F.ver, #F.key, F.key, #F.q, F.q, #F.ty, F.ty)
end

-- load reads filed lines.
local function load(lines)
  local names = {}
  for i = 1, #lines do
    if LINES[lines[i]] == nil then names[#names + 1] = lines[i] end
  end
  if #names == 0 then return end
  local v = mget('HMGET', P .. 'fd', names)
  for i = 1, #names do LINES[names[i]] = v[i] and unpackline(names[i], v[i]) end
end

-- get is a line that is filed, or nil.
local function get(line)
  local F = LINES[line]
  if F == nil then
    local s = anyfiled() and call('HGET', P .. 'fd', line)
    F = s and unpackline(line, s)
    LINES[line] = F
  end
  if F and F.key then return F end
end

-- reclosed is told of a line that rejoin closes, the only one under k.
local function reclosed(line, k)
  shutnow[line] = true
  local F, K = LINES[line], KS[k]
  if F then F.open, F.stored = false, false end
  if K then K.stood = 0 end
end

local function nameof(F) return F.q .. '|' .. F.lane .. F.code .. '|' .. F.ty end

local function setstate(F, s)
  s = s and tonumber(s)
  F.stored = not shutnow[F.line] and (not s or s >= 0)
  F.head = s and (s < 0 and -s or s) or false
  if F.open == nil then F.open = F.stored end
end

-- states reads whether lines are open, and the scores of their heads.
local function states(fs)
  local by = {}
  for i = 1, #fs do
    local F = fs[i]
    if F.stored == nil then
      local name = nameof(F)
      local l = by[name]
      if l then l[#l + 1] = F else by[name] = {F} end
    end
  end
  for name, l in pairs(by) do
    local lines = {}
    for i = 1, #l do lines[i] = l[i].line end
    local s = mget('ZMSCORE', P .. 'o|' .. name, lines)
    for i = 1, #l do setstate(l[i], s[i]) end
  end
end

local function state(F)
  if F.stored == nil then setstate(F, call('ZSCORE', P .. 'o|' .. nameof(F), F.line)) end
  return F
end

local function shut(line)
  local F = get(line)
  return F ~= nil and not state(F).open
end

-- lower says that the head of a line may stand at s now. If the line is filed and closed, it is noted, and the answer is true.
local function lower(line, s)
  local F = get(line)
  if not F then return false end
  F.head = min(state(F).head or s, s)
  if F.open then return false end
  call('ZADD', P .. 'o|' .. nameof(F), 'GT', fmt('%d', -s), line)
  return true
end

-- change notes that something of a line is to be written; dirty, that it is the filing itself.
local function change(F, dirty)
  if not F.changed then F.changed, changed[#changed + 1] = true, F end
  F.dirty = F.dirty or dirty
end
