#!lua flags=no-writes
-- limits.lua: numbers of some limits by value.
-- KEYS  the guard pair
-- ARGV  names of limits
-- reply for each: {values, members of each, lines filed under each, 1 if there are more values}
-- include: base
local err = begin(false, true)
if err then return err end
local out = {}
for _, name in ipairs(ARGV) do
  local values, seen, more = {}, {}, 0
  for _, hash in ipairs({'lm|', 'lf|'}) do
    local key = P .. hash .. name
    local some
    if call('HLEN', key) <= 400 then
      some = call('HKEYS', key)
    else
      local r = call('HSCAN', key, '0', 'COUNT', 400)[2]
      some, more = {}, 1
      for i = 1, #r, 2 do some[#some + 1] = r[i] end
    end
    for i = 1, #some do
      if not seen[some[i]] then values[#values + 1], seen[some[i]] = some[i], true end
    end
  end
  local members, lines = {}, {}
  if #values > 0 then
    members, lines = call('HMGET', P .. 'lm|' .. name, unpack(values)), call('HMGET', P .. 'lf|' .. name, unpack(values))
    for i = 1, #values do members[i], lines[i] = tonumber(members[i] or '0'), tonumber(lines[i] or '0') end
  end
  out[#out + 1] = {values, members, lines, more}
end
return out
