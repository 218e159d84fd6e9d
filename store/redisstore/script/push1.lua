-- push1.lua: what one push to a list of somebody else is made of: readpush(at, value), pushable(p), dopush(p). See push.lua.
local pushtypes = {}

-- readpush reads list, ms, keys that go, keys that go if they have a value; and where it has come to.
local function readpush(at, value)
  local e = {dest = ARGV[at], value = value, ms = ARGV[at + 1], del = {}, unset = {}}
  at = at + 2
  for _, part in ipairs({'del', 'unset'}) do
    local n = tonumber(ARGV[at])
    for i = 1, part == 'del' and n or 2 * n do e[part][i] = ARGV[at + i] end
    at = at + 1 + #e[part]
  end
  return e, at
end

-- pushable reports whether the list is one, and reads what decides. Nothing is written.
local function pushable(e)
  local t = pushtypes[e.dest] or call('TYPE', e.dest).ok
  pushtypes[e.dest] = t
  if t ~= 'none' and t ~= 'list' then return false end
  for j = 1, #e.unset, 2 do
    local v = redis.pcall('GET', e.unset[j])
    if v == e.unset[j + 1] then e.del[#e.del + 1] = e.unset[j] end
  end
  return true
end

local function dopush(e)
  call('LPUSH', e.dest, e.value)
  if e.ms ~= '0' then call('PEXPIRE', e.dest, e.ms) end
  if #e.del > 0 then call('DEL', unpack(e.del)) end
end
