#!lua flags=no-writes
-- overview.lua: numbers of the namespace.
-- KEYS  the guard pair
-- ARGV  with workers (0, 1), groups
-- reply {{wall, run, lease, config version}, known queues, live workers (id, registration, flat), live commands of the groups, ids set aside,
--       topics (name, entries, flat)}
-- include: base
local err = begin(false, true)
if err then return err end
local workers, groups, topics = {}, {}, {}
if ARGV[1] == '1' then
  local ids = call('ZRANGEBYSCORE', P .. 'W', '(' .. fmt('%d', lease), '+inf', 'LIMIT', 0, 2000)
  if #ids > 0 then
    local r = call('HMGET', P .. 'wr', unpack(ids))
    for i = 1, #ids do workers[2 * i - 1], workers[2 * i] = ids[i], r[i] or '' end
  end
end
for i = 2, #ARGV do groups[i - 1] = tonumber(call('HGET', P .. 'g', ARGV[i]) or '0') end
for _, t in ipairs(call('SRANDMEMBER', P .. 'topics', 1000)) do
  topics[#topics + 1], topics[#topics + 2] = t, call('HLEN', P .. 'oi|' .. t)
end
return {{wall, run, lease, cv}, call('SRANDMEMBER', P .. 'qs', 1000), workers, groups, call('ZCARD', P .. 'lost'), topics}
