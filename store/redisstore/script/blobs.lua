#!lua flags=no-writes
-- blobs.lua: reads what a claim did not bring along: params, states and errors in keys of their own, of leases that are still current.
-- KEYS  the guard pair
-- ARGV  for each blob: p, s or e, id, lease name
-- reply a blob or nil for each
-- include: base
local err = begin(false, true)
if err then return err end
local out = {}
for i = 1, #ARGV, 3 do
  local t, name = call('HGET', P .. 'T', ARGV[i + 1]), ARGV[i + 2] .. ' '
  out[#out + 1] = t and sub(t, 1, #name) == name and call('GET', P .. ARGV[i] .. '|' .. ARGV[i + 1]) or false
end
return out
