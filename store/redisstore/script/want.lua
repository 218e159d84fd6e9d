-- want.lua: want(q, lane, max, turn, suspect, types) serves one want of a claim: it picks one invocation after another, and then moves what it
-- picked out of the lines and into the leases.
local worker, nonce, bytes = ARGV[1], ARGV[2], tonumber(ARGV[5])
local free = {i = tonumber(ARGV[3]), k = tonumber(ARGV[4])}
local T0 = false   -- the token before the first of this call
local throttles    -- whether some rate is throttled
local items, looked = 0, 0
local runs, leases, vms
local suspected = false
local PLAIN = {} -- the first byte of flags of records that need no second look
for _, f in ipairs({0, 1, 2, 3, 128, 129, 130, 131}) do PLAIN[f] = true end

local function count(k, f, d)
  local r = call('HINCRBY', k, f, d)
  if r <= 0 then
    call('HDEL', k, f)
  elseif r == d then
    call('SADD', P .. 'qs', sub(k, #P + 3))
  end
end

-- ready is called before the first want.
local function ready()
  throttles = call('EXISTS', P .. 'th') == 1
  runs, leases, vms = fmt('%d', run), fmt('%d', lease), ceil(vns / 1e6)
end

-- times reads not_before, start_by, deadline and starts of a record.
local function times(s, f0)
  local p, starts = 45, 0
  if f0 % 2 == 1 then
    starts = sunpack('<I4', s, 57)
    p = 72
  end
  if band(f0, 2) ~= 0 then p = p + 1 + byte(s, p) end
  local nb, sb, dl = sunpack('<I6I6I6', s, p)
  return sb, dl, starts
end

-- serve one want
local function want(q, lane, wmax, turn, suspect, types)
  local Q, li = qcfg(q), lane == 'i' and 1 or 2
  local n = min(wmax, free[lane])
  local mode = Q.pause
  if Q.til ~= 0 and wall >= Q.til then mode = 0 end
  local stopped = mode == 2 or mode == 1 and lane == 'i'
  local next, why, granted = 0, 0, 0
  local function soon(d)
    d = max(1, ceil(d))
    if next == 0 or d < next then next = d end
  end
  if n <= 0 then return 0, 0, 0 end
  local status = lane == 'i' and 1 or 2
  local lines, polled = {}, {} -- every line taken from; open lines of polls among them

  local function open(cl)
    local ls, k = {}, 0
    for _, t in ipairs(types) do
      local key = openkey(q, lane, cl, t.ty)
      local r = call('ZRANGE', key, 0, n, 'WITHSCORES')
      for j = 1, #r, 2 do
        local s = tonumber(r[j + 1])
        if lane == 'k' and s > run then
          soon(s - run)
          break
        end
        k = k + 1
        ls[k] = {line = r[j], open = key, t = t, s = s, off = 0, i = 1, n = 0, more = true, whole = true, out = {}, cl = cl}
      end
    end
    if k > 1 then table.sort(ls, function(a, b) return a.s > b.s or a.s == b.s and a.line > b.line end) end
    return ls
  end

  -- fill reads the next piece of a line.
  local function fill(L, several)
    local need = (n - granted) * L.t.batch
    local cnt = min(500, several and max(8, ceil(2 * need / several)) or need)
    local ids, sc, ks, k = {}, {}, {}, 0
    if several then
      local r
      if lane == 'k' then
        r = call('ZRANGEBYSCORE', P .. 'l|' .. L.line, '-inf', runs, 'WITHSCORES', 'LIMIT', L.off, cnt)
      else
        r = call('ZRANGE', P .. 'l|' .. L.line, L.off, L.off + cnt - 1, 'WITHSCORES')
      end
      for j = 1, #r, 2 do
        k = k + 1
        ids[k], sc[k], ks[k] = r[j], r[j + 1], P .. 'c|' .. r[j]
      end
    else -- nothing is compared with these scores
      if lane == 'k' then
        ids = call('ZRANGEBYSCORE', P .. 'l|' .. L.line, '-inf', runs, 'LIMIT', L.off, cnt)
      else
        ids = call('ZRANGE', P .. 'l|' .. L.line, L.off, L.off + cnt - 1)
      end
      k = #ids
      for j = 1, k do ks[j] = P .. 'c|' .. ids[j] end
    end
    L.ids, L.sc, L.n, L.i, L.off, L.more = ids, sc, k, 1, L.off + k, k == cnt
    looked = looked + k
    if k > 0 then L.rec = call('MGET', unpack(ks)) end
  end

  -- head makes L stand at a record that can be granted; false if the line has none.
  local function head(L, several)
    while true do
      while L.i <= L.n do
        local s = L.rec[L.i]
        local v, st, f0, _
        if s and #s >= 44 then v, st, _, _, _, _, _, _, _, _, _, _, _, _, _, f0 = byte(s, 1, 16) end
        if v == 1 and st == status then
          if L.cl == 3 or L.cl == 5 or band(f0, 4) == 0 then return true end
          local ok, sb, dl, starts = pcall(times, s, f0)
          if ok and not (dl ~= 0 and wall >= dl or sb ~= 0 and starts == 0 and wall >= sb) then return true end
          if not ok then s = nil end
        else
          s = nil
        end
        L.whole = false
        if not s then
          local H = lib()
          H.setaside(L.ids[L.i], L.line)
          H.incr(P .. 'n|' .. q, lane .. L.t.ty, -1)
          if lane == 'i' then H.incr(P .. 'n|' .. q, 'p', -1) end
          H.flush()
          L.off, L.touched = L.off - 1, true
          if not lines[L] then lines[L], lines[#lines + 1] = true, L end
        else
          why = 5 -- its time is over, and maintenance has not come to it
        end
        L.i = L.i + 1
      end
      if not L.more then return false end
      if looked > 2000 then
        why = 5
        return false
      end
      fill(L, several)
    end
  end

  -- front is the line with the first command of a class.
  local function front(ls)
    while true do
      local k = #ls
      local L = ls[k]
      if not L then return nil end
      if not head(L, k > 1 and k) then
        ls[k] = nil
      else
        if k == 1 then return L end
        local s = tonumber(L.sc[L.i] or L.s)
        if s <= ls[k - 1].s then return L end
        L.s, ls[k] = s, nil
        local lo, hi = 1, k - 1 -- scores fall with the index
        while lo <= hi do
          local mid = floor((lo + hi) / 2)
          if ls[mid].s >= s then lo = mid + 1 else hi = mid - 1 end
        end
        table.insert(ls, lo, L)
      end
    end
  end

  local function without(ls, t)
    local r = {}
    for i = 1, #ls do
      if ls[i].t ~= t then r[#r + 1] = ls[i] end
    end
    return r
  end

  local function size(s)
    local f0, n = byte(s, 16), #s
    if band(f0, 16) ~= 0 then n = n + sunpack('<I4', s, #s - 3) end
    if band(f0, 32) ~= 0 then
      local ok, c = pcall(lib().decode, '', s)
      if ok then n = n + (c.sx or 0) end
    end
    return n
  end

  local lim, burst, bucket = Q.rate[li], Q.burst[li], 0
  if lim > 0 then bucket = tonumber(call('HGET', P .. 'rt', q .. '|' .. lane) or '0') end
  local bucket0, throttled = bucket, false
  if throttles then
    for _, t in ipairs(types) do
      t.thkey = q .. '|' .. lane .. '|' .. t.ty
      local s = call('HGET', P .. 'th', t.thkey)
      if s then t.th = throttle(s) end
    end
  end

  local C = {}
  if lane == 'k' then
    C[3] = open(3)
    if suspect and not suspected then C[5] = open(5) end
  end
  if not stopped then
    C[0] = open(0)
    if lane == 'i' then C[1] = open(1) end
    if suspect and not suspected then C[2] = open(2) end
  end
  local out, bytype = {}, {}
  local xrem, xladd, asked = {}, {}, {}
  -- plain takes as many first commands of L as it can, one for each invocation; the caller has seen that nothing else competes.
  local function plain(L)
    local t, cl = L.t, L.cl
    local most = min(n - granted, 500 - items)
    if t.max > 0 then most = min(most, t.max - t.given) end
    local k, line = 0, sub(L.line, 1, 16)
    L.touched = true
    lines[L], lines[#lines + 1] = true, L
    while k < most and head(L) do
      local ids, rec, i = L.ids, L.rec, L.i
      local to = min(L.n, i + most - k - 1)
      local g = #gids
      while i <= to do
        local s = rec[i] or ''
        local z = #s
        local v, st, _, _, _, _, _, _, _, _, _, _, _, _, _, f0 = byte(s, 1, 16)
        if v ~= 1 or st ~= status or z < 44 or PLAIN[f0] == nil or items > 0 and bytes < z then break end
        bytes, items, g = bytes - z, items + 1, g + 1
        gids[g], grecs[g] = ids[i], s
        i, k = i + 1, k + 1
      end
      local o, ids0 = #L.out, L.i
      for j = ids0, i - 1 do
        o = o + 1
        L.out[o] = ids[j]
        out[#out + 1] = ids[j]
      end
      L.i = i
      if i <= to then break end -- the slow way goes on with this one
    end
    if k > 0 then
      granted, t.given = granted + k, t.given + k
      bytype[t] = (bytype[t] or 0) + k
      addrun(li - 1, cl, 1, k, line)
    end
  end
  if lim <= 0 and not throttles and not stopped and not (C[1] and #C[1] > 0) and not (C[2] and #C[2] > 0) and not (C[3] and #C[3] > 0) and
    not (C[5] and #C[5] > 0) and #C[0] == 1 and C[0][1].t.batch == 1 then
    plain(C[0][1])
  end
  while granted < n do
    local L, cl
    if C[3] then L, cl = front(C[3]), 3 end
    if not L and C[5] and not suspected then L, cl = front(C[5]), 5 end
    if not L and not stopped then
      if C[2] and not suspected then L, cl = front(C[2]), 2 end
      if not L then
        L, cl = front(C[0]), 0
        if C[1] and (not L or (turn + granted) % 4 == 3) then
          local R = front(C[1])
          if R then L, cl = R, 1 end
        end
      end
    end
    if not L then break end
    local t, go = L.t, true
    if t.max > 0 and t.given >= t.max then
      C[cl], go = without(C[cl], t), false
    elseif items > 0 and (bytes < size(L.rec[L.i]) or items >= 500) then
      why = 5
      break
    elseif cl == 3 or cl == 5 then
      if t.th then t.th.bucket, t.dirty = force(t.th.bucket, throttlenow(t.th), 1), true end
      bucket = force(bucket, lim, burst)
    else
      local tb, got, w
      if t.th then
        if throttlegone(t.th) then
          call('HDEL', P .. 'th', t.thkey)
          t.th = nil
        else
          tb, got, w = take(t.th.bucket, throttlenow(t.th), 1, 1)
          if got == 0 then
            throttled, go = true, false
            soon(w)
            C[cl] = without(C[cl], t)
            t.th.bucket, t.dirty = tb, true
          end
        end
      end
      if go then
        bucket, got, w = take(bucket, lim, burst, 1)
        if got == 0 then
          why = 3
          soon(w)
          break
        end
        if t.th then t.th.bucket, t.dirty = tb, true end
      end
    end
    if go then
      local batch, k = t.batch, 0
      if cl == 2 or cl == 5 then batch, suspected = 1, true end
      if not lines[L] then lines[L], lines[#lines + 1] = true, L end
      L.touched = true
      while k < batch do
        if k > 0 and not head(L, #C[cl] > 1 and #C[cl]) then break end
        local s = L.rec[L.i]
        local z = size(s)
        if k > 0 and (bytes < z or items >= 500) then break end
        local id, f0 = L.ids[L.i], byte(s, 16)
        bytes, k, items = bytes - z, k + 1, items + 1
        L.i = L.i + 1
        L.out[#L.out + 1] = id
        out[#out + 1] = id
        local g = #gids + 1
        gids[g], grecs[g] = id, s
        if band(f0, 12) ~= 0 then
          xrem[#xrem + 1] = id
          if cl == 3 or cl == 5 then asked[#asked + 1] = id end
          if band(f0, 4) ~= 0 then
            local _, dl = times(s, f0)
            if dl ~= 0 then xladd[#xladd + 1], xladd[#xladd + 2] = dl, id end
          end
        end
      end
      granted = granted + 1
      t.given = t.given + 1
      bytype[t] = (bytype[t] or 0) + k
      addrun(li - 1, cl, batch, k, sub(L.line, 1, 16))
    end
  end
  if granted < n then
    if why ~= 0 then
      -- said already
    elseif stopped then
      why = 2
      if Q.til ~= 0 then soon(Q.til - wall) end
    elseif throttled then
      why = 4
    else
      why = 1
    end
  else
    why = 0
  end
  -- the step: out of the lines, into the leases
  if #out > 0 then
    local T = call('HINCRBY', KEYS[1], 'tok', #out) - #out
    T0 = T0 or T
    local tail = '.' .. nonce .. ' ' .. worker .. ' ' .. leases
    local zl, th, until_ = {}, {}, fmt('%d', lease + vms)
    for i = 1, #out do
      local j = i * 2
      zl[j - 1], zl[j] = until_, out[i]
      th[j - 1], th[j] = out[i], fmt('%d', T + i) .. tail
    end
    call('ZADD', P .. 'L', unpack(zl))
    call('HSET', P .. 'T', unpack(th))
    if #xrem > 0 then call('ZREM', P .. 'x', unpack(xrem)) end
    if #asked > 0 then call('SADD', P .. 'cx', unpack(asked)) end
    if #xladd > 0 then call('ZADD', P .. 'xl', unpack(xladd)) end
    local total = 0
    for t, k in pairs(bytype) do
      count(P .. 'n|' .. q, lane .. t.ty, -k)
      count(P .. 'n|' .. q, (lane == 'i' and 'I' or 'K') .. t.ty, k)
      total = total + k
    end
    if lane == 'i' then count(P .. 'n|' .. q, 'p', -total) end
  end
  for i = 1, #lines do
    local L = lines[i]
    local key = P .. 'l|' .. L.line
    if #L.out > 0 then
      if L.whole then call('ZREMRANGEBYRANK', key, 0, #L.out - 1) else call('ZREM', key, unpack(L.out)) end
    end
    local h = call('ZRANGE', key, 0, 0, 'WITHSCORES')
    if h[2] then call('ZADD', L.open, h[2], L.line) else call('ZREM', L.open, L.line) end
    if lane == 'k' then
      if h[2] and tonumber(h[2]) > run then soon(tonumber(h[2]) - run) end
      polled[L.open] = true
    end
  end
  for key in pairs(polled) do nextpoll(key) end
  if bucket ~= bucket0 then call('HSET', P .. 'rt', q .. '|' .. lane, fmt('%.17g', bucket)) end
  for _, t in ipairs(types) do
    if t.dirty then call('HSET', P .. 'th', t.thkey, packthrottle(t.th)) end
  end
  free[lane] = free[lane] - granted
  return granted, why, next
end

