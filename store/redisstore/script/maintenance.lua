-- maintenance.lua: bounded maintenance of the whole namespace: at most 100 items of each kind, and 150 in all.
local LEFT = 150
local leases = 0 -- how many there were after the reaping
-- dueof is some members of a sorted set with a score of at most t; if there are more, the answer says so.
local function dueof(key, t)
  local most = min(BOUND, LEFT)
  local ids = call('ZRANGEBYSCORE', P .. key, '-inf', fmt('%d', t), 'LIMIT', 0, most + 1)
  if #ids > most then
    ids[#ids] = nil
    MR[2] = 1
  end
  LEFT = LEFT - #ids
  return ids
end

-- sooner lets next be at most d ms away.
local function sooner(d)
  d = max(1, ceil(d))
  if MR[3] == 0 or d < MR[3] then MR[3] = d end
end

local function head(key)
  local h = call('ZRANGE', P .. key, 0, 0, 'WITHSCORES')
  return h[2] and tonumber(h[2])
end

local function maintain()
  MR = {wall, 0, 0, 0, 0, 0, 0, 0, 0, cv, vns, lease}
  -- leases that are over
  local ids = dueof('L', lease)
  if #ids > 0 then
    local H = lib()
    local rec, t, beats = call('MGET', unpack(keysof(ids, 'c|'))), call('HMGET', P .. 'T', unpack(ids)), {}
    local till = call('ZMSCORE', P .. 'L', unpack(ids))
    for i = 1, #ids do
      local c = t[i] and H.load(ids[i], rec[i], t[i])
      if c then
        local beat = beats[c.owner] or H.beat(c.owner)
        beats[c.owner] = beat
        if beat > lease and beat <= lease + vns / 2e6 then -- in doubt: see rule.Doubt
          H.zadd('L', beat, c.id)
        else
          MR[4] = MR[4] + 1
          if beat > lease then MR[9] = MR[9] + 1 else MR[8] = MR[8] + 1 end
          H.leave(c)
          H.reap(c, beat > lease, qcfg(c.d.q), tonumber(till[i]))
          H.follow(c)
        end
      elseif t[i] or not rec[i] then
        H.setaside(ids[i])
      else
        H.homeless(ids[i], rec[i])
      end
    end
    H.flush()
  end
  -- a lease without its end, or an end without its lease, heals: it ends now
  leases = call('ZCARD', P .. 'L')
  if call('HLEN', P .. 'T') ~= leases then
    local H = lib()
    local s = call('HRANDFIELD', P .. 'T', BOUND)
    if #s > 0 then
      local z = call('ZMSCORE', P .. 'L', unpack(s))
      for i = 1, #s do
        if not z[i] then
          H.zadd('L', lease, s[i])
          MR[2] = 1
        end
      end
    end
    H.flush()
  end
  -- deadlines, start_by, cancel visits that are tried no more
  ids = dueof('x', wall)
  if #ids > 0 then
    local H = lib()
    local rec, t = call('MGET', unpack(keysof(ids, 'c|'))), call('HMGET', P .. 'T', unpack(ids))
    for i = 1, #ids do
      local c = H.load(ids[i], rec[i], t[i])
      if not c then
        H.setaside(ids[i])
      elseif c.st > 2 or c.leased then
        H.zrem('x', ids[i])
      elseif H.isended(c) then
        MR[5] = MR[5] + 1
        H.ifended(c)
      elseif H.visitover(c) then
        MR[5] = MR[5] + 1
        H.leave(c)
        H.cancelatrest(c)
        H.follow(c)
      else
        H.leave(c)
        H.enter(c)
      end
    end
    H.flush()
  end
  -- backoffs and not_before
  for k = 1, 2 do
    ids = k == 1 and dueof('sr', run) or dueof('sn', wall)
    if #ids > 0 then
      local H = lib()
      local rec, n = call('MGET', unpack(keysof(ids, 'c|'))), 0
      local seq = call('HINCRBY', KEYS[1], 'seq', #ids) - #ids
      for i = 1, #ids do
        local c = H.load(ids[i], rec[i])
        if not c then
          H.setaside(ids[i])
        elseif c.pl ~= 2 then
          H.zrem(k == 1 and 'sr' or 'sn', ids[i])
        else
          H.leave(c)
          if H.isdue(c) then
            n = n + 1
            H.promote(c, seq + n)
            H.save(c)
          end
          H.enter(c)
        end
      end
      MR[6] = MR[6] + n
      H.flush()
    end
  end
  -- finished records past their retention
  ids = dueof('z', wall)
  if #ids > 0 then purge(ids) end
  for _, at in ipairs(dueof('yz', wall)) do
    if LEFT <= 0 then
      MR[2] = 1
      break
    end
    LEFT = LEFT - unbury(at, min(BOUND, LEFT))
  end
  -- queues with more finished records than they keep
  local over = call('SRANDMEMBER', P .. 'over')
  if over then trim(over, 0) end
  -- workers whose heartbeat is over
  ids = dueof('W', lease)
  if #ids > 0 then
    call('ZREM', P .. 'W', unpack(ids))
    call('HDEL', P .. 'wr', unpack(ids))
  end
  -- throttled rates that have grown back, and who waits no more
  if call('EXISTS', P .. 'th') == 1 then
    local f = call('HRANDFIELD', P .. 'th', 20)
    local v = call('HMGET', P .. 'th', unpack(f))
    for i = 1, #f do
      local t = throttle(v[i])
      if throttlegone(t) then call('HDEL', P .. 'th', f[i]) end
    end
  end
  if call('EXISTS', P .. 'aw', P .. 'ag') > 0 then
    local t = fmt('%d', wall)
    call('ZREMRANGEBYSCORE', P .. 'aw', '-inf', t)
    call('ZREMRANGEBYSCORE', P .. 'ag', '-inf', t)
  end
  if limited then
    local more, next = lim().maintain()
    if more then MR[2] = 1 end
    if next then sooner(next) end
  end
  local h = head('L')
  if h then sooner(h - lease) end
  h = head('sr')
  if h then sooner(h - run) end
  h = head('sn')
  if h then sooner(h - wall) end
  h = head('x')
  if h then sooner(h - wall) end
  h = call('ZRANGEBYSCORE', P .. 'kn', '(' .. fmt('%d', run), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if h[2] then sooner(tonumber(h[2]) - run) end
  return MR
end
