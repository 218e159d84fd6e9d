#!lua flags=allow-oom
-- cancel.lua: asks for the end of commands.
-- KEYS  the guard pair
-- ARGV  reason, its beginning for an event, force (0, 1), ids
-- reply two bytes for each id: 1 ended, 2 requested, 3 too late, 4 not found; status
-- include: base holds lib lim
local err = begin(false)
if err then return err end
local H, out, force = lib(), {}, ARGV[3] == '1'
for i = 4, #ARGV do
  local id = ARGV[i]
  local t = call('HGET', P .. 'T', id)
  local c = H.load(id, record(id), t)
  if not c or H.purgeable(c) then
    out[#out + 1] = '\4\0'
  else
    H.ifended(c)
    H.flush()
    if c.st > 2 then
      out[#out + 1] = string.char(H.cancel(c, '', '', force, qcfg(c.d.q)), c.st)
    else
      local asked, leased = c.ca, c.leased
      if not leased or force then H.leave(c) end
      local r = H.cancel(c, ARGV[1], ARGV[2], force, qcfg(c.d.q))
      if leased and c.leased then
        if asked == 0 then H.sadd('cx', id) end
        H.save(c)
      else
        H.follow(c)
        if c.st <= 2 then H.wake('w|k|' .. c.d.q) end
      end
      if leased then H.wake('c|' .. id) end
      H.flush()
      out[#out + 1] = string.char(r, c.st)
    end
  end
end
return table.concat(out)
