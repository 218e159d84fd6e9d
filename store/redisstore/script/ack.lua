-- ack.lua: ack(topic, seqs, ids): takes delivered entries of a topic away; ids are those of HMGET. Their records may go from now on.
local function ack(topic, seqs, ids)
  local H = lib()
  local ob, oh, oi = 'ob|' .. topic, 'oh|' .. topic, 'oi|' .. topic
  for i = 1, #seqs do
    local id = ids[i] and string.match(ids[i], '^[^ ]+')
    if id then
      H.hdel(oi, seqs[i])
      H.zrem(ob, seqs[i])
      H.zrem(oh, seqs[i])
      local c = H.load(id, record(id))
      if c and c.st > 2 and c.purge == 0 then
        if H.stripatend(c) then
          H.unfinish(c)
          H.entomb(c)
        else
          c.purge = H.purgeat(c)
          H.zadd('z', c.purge, c.id)
          H.save(c)
        end
      end
    end
  end
  H.flush()
end
