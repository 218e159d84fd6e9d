#!lua flags=allow-oom
-- await.lua: says which ends somebody waits for; told again before it lapses.
-- KEYS  the guard pair
-- ARGV  for how long in ms, number of ids, ids, groups
-- reply 1
-- include: base
local err = begin(false)
if err then return err end
local n, upto = tonumber(ARGV[2]), fmt('%d', wall + tonumber(ARGV[1]))
local function add(key, from, to)
  local l = {}
  for i = from, to do l[#l + 1], l[#l + 2] = upto, ARGV[i] end
  for i = 1, #l, 4000 do call('ZADD', P .. key, unpack(l, i, min(i + 3999, #l))) end
end
add('aw', 3, 2 + n)
add('ag', 3 + n, #ARGV)
return 1
