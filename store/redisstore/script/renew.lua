#!lua flags=allow-oom
-- renew.lua: a worker's heartbeat: its registration and its leases, then bounded maintenance.
-- KEYS  the guard pair
-- ARGV  worker, registration, gone (0, 1), number of leases; for each: id, lease name, flags (1 overdue, 2 progress follows)[, progress]
-- reply {maintenance, one byte for each lease (0 lost, 1 ok, 2 refused; + 4 cancel), live workers}
-- include: base rate holds lib lim sweep maintenance
local err = begin(true)
if err then return err end
local worker, n = ARGV[1], tonumber(ARGV[4])
local upto = lease + ceil(vns / 1e6)
if ARGV[3] == '1' then
  call('ZREM', P .. 'W', worker)
  call('HDEL', P .. 'wr', worker)
  call('SET', P .. 'k|' .. worker, '-', 'PX', '600000')
else
  if call('ZADD', P .. 'W', upto, worker) == 1 and call('GET', P .. 'k|' .. worker) == '-' then call('DEL', P .. 'k|' .. worker) end
  call('HSET', P .. 'wr', worker, fmt('%d %d ', wall, upto) .. ARGV[2])
end
local out = {}
if n > 0 then
  local ids, names, overs, prog, a = {}, {}, {}, {}, 5
  local someover = false
  for i = 1, n do
    ids[i], names[i] = ARGV[a], ARGV[a + 1]
    local f = ARGV[a + 2]
    a = a + 3
    overs[i] = f == '1' or f == '3'
    someover = someover or overs[i]
    if f >= '2' then
      prog[i] = ARGV[a]
      a = a + 1
    end
  end
  local t, x, cx, od = call('HMGET', P .. 'T', unpack(ids)), nil, nil, nil
  if call('EXISTS', P .. 'xl', P .. 'cx', P .. 'od') > 0 or someover then
    x, cx, od = call('ZMSCORE', P .. 'xl', unpack(ids)), call('SMISMEMBER', P .. 'cx', unpack(ids)), call('SMISMEMBER', P .. 'od', unpack(ids))
  end
  local za, changed = {}, {}
  for i = 1, n do
    local cur, m = t[i], #names[i] + 1
    if cur and sub(cur, 1, m) == names[i] .. ' ' then
      local r = 1
      if x and x[i] and wall >= tonumber(x[i]) + 30000 then
        r = 2
      else
        za[#za + 1], za[#za + 2] = upto, ids[i]
      end
      if cx and cx[i] == 1 then r = r + 4 end
      out[i] = string.char(r)
      if prog[i] or overs[i] ~= (od ~= nil and od[i] == 1) then changed[#changed + 1] = i end
    else
      out[i] = '\0'
    end
  end
  if #za > 0 then call('ZADD', P .. 'L', 'GT', unpack(za)) end -- a lowered V shortens no lease: its owner may never see the answer
  if #changed > 0 then
    local H = lib()
    for _, i in ipairs(changed) do
      local c = H.load(ids[i], record(ids[i]), t[i])
      if c then
        if prog[i] then c.g = prog[i] end
        if overs[i] and not c.over then
          H.event(c, 8, c.owner, '')
          H.sadd('od', ids[i])
        elseif not overs[i] and c.over then
          H.srem('od', ids[i])
        end
        c.over = overs[i]
        H.save(c)
      end
    end
    H.flush()
  end
end
local M = maintain()
return {M, table.concat(out), call('ZCOUNT', P .. 'W', '(' .. fmt('%d', lease), '+inf')}
