#!lua flags=allow-oom
-- setaside.lua: sets aside commands that were claimed and whose records the client cannot read.
-- KEYS  the guard pair
-- ARGV  for each: id, lease name
-- reply how many were set aside
-- include: base holds lib lim
local err = begin(false)
if err then return err end
local H, n = lib(), 0
for i = 1, #ARGV, 2 do
  local t, name = call('HGET', P .. 'T', ARGV[i]), ARGV[i + 1] .. ' '
  if t and sub(t, 1, #name) == name then
    H.setaside(ARGV[i])
    n = n + 1
  end
end
H.flush()
return n
