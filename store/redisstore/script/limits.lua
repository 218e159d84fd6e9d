#!lua flags=no-writes
-- limits.lua: numbers of some limits by value.
-- KEYS  the guard pair
-- ARGV  names of limits
-- reply for each: {values, members of each, lines filed under each, 1 if there are more values, those of the lines that never fit}
-- include: base
local err = begin(false, true)
if err then return err end
local out = {}
for _, name in ipairs(ARGV) do
  local values, seen, members, lines, never, more = {}, {}, {}, {}, {}, 0
  local function value(v)
    if not seen[v] then values[#values + 1], seen[v] = v, true end
  end
  local from = '-'
  repeat -- one value after the other
    local m = call('ZRANGEBYLEX', P .. 'm|' .. name, from, '+', 'LIMIT', 0, 1)[1]
    local v = m and string.match(m, '^[^|]*')
    if v then
      value(v)
      from = '[' .. v .. '}'
    end
  until not m or #values >= 400
  if #values >= 400 then more = 1 end
  local key = P .. 'lf|' .. name
  if call('HLEN', key) <= 400 then
    for _, v in ipairs(call('HKEYS', key)) do value(v) end
  else
    local r = call('HSCAN', key, '0', 'COUNT', 400)[2]
    more = 1
    for i = 1, #r, 2 do value(r[i]) end
  end
  if #values > 0 then
    lines = call('HMGET', key, unpack(values))
    for i = 1, #values do
      members[i] = call('ZLEXCOUNT', P .. 'm|' .. name, '[' .. values[i] .. '|', '(' .. values[i] .. '}')
      lines[i] = tonumber(string.match(lines[i] or '0', '^%d+'))
      never[i] = lines[i] > 0 and call('ZCOUNT', P .. 'fl|' .. name .. '|' .. values[i], 1125899906842624, '+inf') or 0 -- see line.lua
    end
  end
  out[#out + 1] = {values, members, lines, more, never}
end
return out
