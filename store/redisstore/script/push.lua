#!lua flags=allow-oom
-- push.lua: hands entries of a topic over to lists of the same database, and takes them away, in one step. It is for servers that are no cluster: the
-- lists, and the keys that go with them, are the caller's and not of the namespace.
-- KEYS  the guard pair
-- ARGV  topic, then for each entry: number, value, list, ms that the list lives from now (0: as it does), how many keys go, those, how many keys go that
--       have a value, those with the value
-- reply {a letter for each entry: p pushed, g gone before, l the list is none}
-- include: base holds lib lim ack push1
local err = begin(false)
if err then return err end
local topic, oi = ARGV[1], 'oi|' .. ARGV[1]
local es, seqs, at = {}, {}, 2
while at <= #ARGV do
  local e, nextat = readpush(at + 2, ARGV[at + 1])
  es[#es + 1], seqs[#seqs + 1] = e, ARGV[at]
  at = nextat
end
if #es == 0 then return {''} end
local ids = call('HMGET', P .. oi, unpack(seqs))
local out, seen = {}, {}
for i = 1, #es do
  if not ids[i] or seen[seqs[i]] then
    out[i], ids[i] = 'g', false
  elseif not pushable(es[i]) then
    out[i], ids[i] = 'l', false
  else
    out[i], seen[seqs[i]] = 'p', true
  end
end
for i = 1, #es do
  if out[i] == 'p' then dopush(es[i]) end
end
ack(topic, seqs, ids)
if call('EXISTS', P .. oi) == 0 then call('SREM', P .. 'topics', topic) end
return {table.concat(out)}
