#!lua flags=allow-oom
-- push.lua: hands entries of a topic over to lists of the same database, and takes them away, in one step. It is for servers that are no cluster: the
-- lists, and the keys that go with them, are the caller's and not of the namespace.
-- KEYS  the guard pair
-- ARGV  topic, then for each entry: number, list, value, ms that the list lives from now (0: as it does), how many keys go, those, how many keys go that
--       have a value, those with the value
-- reply {a letter for each entry: p pushed, g gone before, l the list is none}
-- include: base lib ack
local err = begin(false)
if err then return err end
local topic, oi = ARGV[1], 'oi|' .. ARGV[1]
local es, seqs, at = {}, {}, 2
while at <= #ARGV do
  local e = {seq = ARGV[at], dest = ARGV[at + 1], value = ARGV[at + 2], ms = ARGV[at + 3], del = {}, unset = {}}
  at = at + 4
  for _, part in ipairs({'del', 'unset'}) do
    local n = tonumber(ARGV[at])
    for i = 1, part == 'del' and n or 2 * n do e[part][i] = ARGV[at + i] end
    at = at + 1 + #e[part]
  end
  es[#es + 1], seqs[#seqs + 1] = e, e.seq
end
if #es == 0 then return {''} end
local ids = call('HMGET', P .. oi, unpack(seqs))
local out, types, seen = {}, {}, {}
for i = 1, #es do
  local e = es[i]
  local t = types[e.dest] or call('TYPE', e.dest).ok
  types[e.dest] = t
  if not ids[i] or seen[e.seq] then
    out[i], ids[i] = 'g', false
  elseif t ~= 'none' and t ~= 'list' then
    out[i], ids[i] = 'l', false
  else
    out[i], seen[e.seq] = 'p', true
    for j = 1, #e.unset, 2 do
      local v = redis.pcall('GET', e.unset[j])
      if v == e.unset[j + 1] then e.del[#e.del + 1] = e.unset[j] end
    end
  end
end
for i = 1, #es do
  if out[i] == 'p' then
    local e = es[i]
    call('LPUSH', e.dest, e.value)
    if e.ms ~= '0' then call('PEXPIRE', e.dest, e.ms) end
    if #e.del > 0 then call('DEL', unpack(e.del)) end
  end
end
ack(topic, seqs, ids)
if call('EXISTS', P .. oi) == 0 then call('SREM', P .. 'topics', topic) end
return {table.concat(out)}
