#!lua flags=allow-oom
-- outbox.lua: removes acknowledged entries of a topic, then reads others and hides them for a while.
-- KEYS  the guard pair
-- ARGV  topic, most to read, hide for in ms, acknowledged numbers
-- reply {{wall, run, lease, config version}, numbers, ids, what read.lua says}
-- include: base holds lib lim read ack
local err = begin(false)
if err then return err end
local topic, most, hide = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ob, oh, oi = 'ob|' .. topic, 'oh|' .. topic, 'oi|' .. topic
if #ARGV > 3 then
  local seqs = {}
  for i = 4, #ARGV do seqs[#seqs + 1] = ARGV[i] end
  ack(topic, seqs, call('HMGET', P .. oi, unpack(seqs)))
end
if call('EXISTS', P .. oi) == 0 then call('SREM', P .. 'topics', topic) end
local ids, seqs = {}, {}
if most > 0 then
  local back = call('ZRANGEBYSCORE', P .. oh, '-inf', fmt('%d', wall), 'LIMIT', 0, most)
  for i = 1, #back do
    call('ZADD', P .. ob, back[i], back[i])
    call('ZREM', P .. oh, back[i])
  end
  local s = call('ZRANGE', P .. ob, 0, most - 1)
  if #s > 0 then
    local v = call('HMGET', P .. oi, unpack(s))
    for i = 1, #s do
      local id, til = string.match(v[i] or '', '^([^ ]+) ?(%d*)$')
      til = tonumber(til or '') or 0
      if not id or call('EXISTS', P .. 'c|' .. id) == 0 then -- an entry without a command is about nothing
        call('ZREM', P .. ob, s[i])
        call('HDEL', P .. oi, s[i])
      else
        if til <= wall then -- else the clock went back
          ids[#ids + 1], seqs[#seqs + 1] = id, tonumber(s[i])
          til = wall + hide
        end
        if til > wall then
          local t = fmt('%d', til)
          call('ZREM', P .. ob, s[i])
          call('ZADD', P .. oh, t, s[i])
          call('HSET', P .. oi, s[i], id .. ' ' .. t)
        end
      end
    end
  end
end
return {{wall, run, lease, cv}, seqs, ids, read(ids, false)}
