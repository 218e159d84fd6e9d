-- intake.lua: submit(a, opt): adds the commands that begin at ARGV[a].
-- from ARGV[a]: number of items, number of lines; for each line: base, definition, queue, type, group; the line of each item (2 bytes each,
-- empty if there is one line), delays (8 bytes each, empty if none has one), whether an id comes twice (0, 1); for each item: id, record from its flags on, and its params
-- if their size stands at the end of the record.
-- It returns one string of two bytes for each item (code, status), a list of what else there is to say, and where ARGV goes on.
-- codes: C created, K known, X other contents, U unique key is held (holder and its status follow), F queue is full, A aborted,
-- N cost can never fit (the limit's key and max follow)
local function submit(a, capped, atomic)
  local n, nl = tonumber(ARGV[a]), tonumber(ARGV[a + 1])
  local lines, tight, big = {}, false, nil -- tight: some queue has a cap; big: some cost can never fit
  a = a + 2
  for i = 1, nl do
    local q = ARGV[a + 2]
    lines[i] = {base = ARGV[a], def = ARGV[a + 1], q = q, ty = ARGV[a + 3], g = ARGV[a + 4], n = 0, s = 0, za = {}, cfg = qcfg(q)}
    tight = tight or capped and lines[i].cfg.ready > 0
    if limited and not string.find(lines[i].def, '^[^ ]+ [^ ]+ [^ ]* [^ ]* 1 ') then
      lines[i].unfit = lim().unfit(lines[i].base, lines[i].def)
      big = big or lines[i].unfit
    end
    a = a + 5
  end
  local which, delays, twice = ARGV[a], ARGV[a + 1], ARGV[a + 2] == '1'
  a = a + 3
  local ids, rests, ks, ps, keys, keyat = {}, {}, {}, {}, {}, {}
  for i = 1, n do
    local id, r = ARGV[a], ARGV[a + 1]
    local f0, f1 = byte(r, 1, 2)
    ids[i], rests[i], ks[i] = id, r, P .. 'c|' .. id
    a = a + 2
    if f0 ~= 0 and band(f0, 16) ~= 0 then
      ps[i] = ARGV[a]
      a = a + 1
    end
    if f1 ~= 0 and band(f1, 2) ~= 0 then -- a unique key, or a topic
      local p = 30
      if band(f0, 4) ~= 0 then p = p + 18 end
      if f1 % 2 == 1 then p = p + 20 end
      local u = sunpack('<Bc0', r, p)
      if u ~= '' then keys[#keys + 1], keyat[i] = u, #keys + 1 end
    end
  end
  local known, some, held = n > 0 and call('MGET', unpack(ks)) or {}, false, {}
  for i = 1, n do some = some or known[i] end
  if #keys > 0 then held = call('HMGET', P .. 'u', unpack(keys)) end
  local code, say, refused, m = {}, {}, false, n
  local here, uniq, room = {}, {}, {}
  if some or twice or #keys > 0 or tight or big then -- something may stand against an item; code stays nil for those that are new
    for i = 1, n do
      local id, r, rec = ids[i], rests[i], known[i]
      if here[id] then -- the same id twice in one call
        code[i] = (sub(here[id], 22, 29) == sub(r, 22, 29) and 'K' or 'X') .. '1'
      elseif rec then
        local H, c, st = nil, nil, byte(rec, 2) or 0
        if st > 2 or #rec >= 44 and band(byte(rec, 16), 13) ~= 0 then
          H = lib()
          c = H.load(id, rec, st <= 2 and call('HGET', P .. 'T', id) or nil)
        end
        if c and H.purgeable(c) then
          H.forget(c)
          H.flush()
          rec = nil
        elseif c and H.ifended(c) then
          H.flush()
          st = c.st
        end
        if rec then code[i] = (sub(rec, 37, 44) == sub(r, 22, 29) and 'K' or 'X') .. fmt('%d', st) end
      end
      local u = keyat[i] and keys[keyat[i]]
      if u and not code[i] then
        local h, st = uniq[u], 1
        if not h and held[keyat[i]] then
          h, st = lib().holder(u, id)
          lib().flush()
        end
        if h then
          code[i] = 'U' .. fmt('%d', st)
          say[#say + 1] = h
        end
      end
      if not code[i] and tight then
        local L = lines[which == '' and 1 or byte(which, 2 * i - 1) * 256 + byte(which, 2 * i)]
        if L.cfg.ready > 0 then
          local k = room[L.q] or tonumber(call('HGET', P .. 'n|' .. L.q, 'p') or '0')
          if k >= L.cfg.ready then code[i] = 'F0' end
          room[L.q] = code[i] and k or k + 1
        end
      end
      if not code[i] and big then
        local L = lines[which == '' and 1 or byte(which, 2 * i - 1) * 256 + byte(which, 2 * i)]
        local K = L.unfit
        if K then
          code[i] = 'N0'
          say[#say + 1], say[#say + 2] = K.k, fmt('%d', K.max)
          if room[L.q] then room[L.q] = room[L.q] - 1 end
        end
      end
      if code[i] then
        m = m - 1
        refused = refused or byte(code[i], 1) ~= 75
      else
        here[id] = r
        if u then uniq[u] = id end
      end
    end
    if atomic and refused then
      for i = 1, n do
        if not code[i] or byte(code[i], 1) == 75 then code[i] = 'A0' end
      end
      return table.concat(code), say, a
    end
  end
  if m == 0 then return table.concat(code), say, a end
  -- decided: write
  local seq = call('HINCRBY', KEYS[1], 'seq', m) - m
  local set, x, sn, us = {}, {}, {}, {}
  for i = 1, n do
    if not code[i] then
      local id, r = ids[i], rests[i]
      local L = lines[which == '' and 1 or byte(which, 2 * i - 1) * 256 + byte(which, 2 * i)]
      local place, f0, _, _, _, prio = 1, byte(r, 1, 5)
      local dl = 0
      code[i] = 'C1'
      seq = seq + 1
      if f0 ~= 0 and band(f0, 4) ~= 0 then
        local nb, sb
        nb, sb, dl = sunpack('<I6I6I6', r, 30)
        if delays ~= '' then
          local d = sunpack('<d', delays, 8 * i - 7)
          if d > 0 and wall + d > nb then
            nb = wall + d
            r = sub(r, 1, 29) .. spack('<I6', nb) .. sub(r, 36)
          end
        end
        if nb > wall then
          place = 2
          sn[#sn + 1], sn[#sn + 2] = nb, id
        end
        local at = dl
        if sb ~= 0 and (at == 0 or sb < at) then at = sb end
        if at ~= 0 then x[#x + 1], x[#x + 2] = at, id end
      end
      local k = #set
      set[k + 1], set[k + 2] = ks[i], spack('<BBBI6I6', 1, 1, place, seq, wall) .. r
      if ps[i] then set[k + 3], set[k + 4] = P .. 'p|' .. id, ps[i] end
      if place == 1 then
        local s
        if L.cfg.order == 1 then
          s = dl ~= 0 and dl or 14516236800000 + seq
        else
          s = prio * 17592186044416 + seq
        end
        local za, j = L.za, L.n * 2
        za[j + 1], za[j + 2] = decimal(s), id
        L.n = L.n + 1
        if not L.head or s < L.head then L.head = s end
      else
        L.s = L.s + 1
      end
    end
  end
  for i = 1, #set, 4000 do call('MSET', unpack(set, i, min(i + 3999, #set))) end
  if #sn > 0 then call('ZADD', P .. 'sn', unpack(sn)) end
  if #x > 0 then call('ZADD', P .. 'x', unpack(x)) end
  for u, id in pairs(uniq) do us[#us + 1], us[#us + 2] = u, id end
  if #us > 0 then call('HSET', P .. 'u', unpack(us)) end
  local cnt, grp, bases, open = {}, {}, {}, {}
  local crowded = limited and lim().anyfiled()
  if crowded then
    local names = {}
    for i = 1, nl do names[i] = lines[i].base .. 'i0' end
    LM.load(names)
  end
  for i = 1, nl do
    local L = lines[i]
    local k = L.n + L.s
    if k > 0 then
      bases[#bases + 1] = L
      local c = cnt[L.q]
      if not c then
        c = {p = 0, s = 0}
        cnt[L.q] = c
      end
      c.p, c.s = c.p + k, c.s + L.s
      if L.n > 0 then
        local f = 'i' .. L.ty
        c[f] = (c[f] or 0) + L.n
      end
      if L.g ~= '' then grp[L.g] = (grp[L.g] or 0) + k end
    end
    if L.n > 0 then
      local line, key = L.base .. 'i0', openkey(L.q, 'i', '0', L.ty)
      local k = P .. 'l|' .. line
      zadd(k, L.n < 16 and 16 or 0, L.za)
      if L.n < 16 and seq % 8 == 0 then
        local n = call('ZCARD', k)
        if n >= 16 and n < 64 then astree(k) end
      end
      if not (crowded and LM.lower(line, L.head)) then
        if L.cfg.fair then lim().fairhead(sub(key, #P + 3), L.q, 'i', L.g, line) end
        local o = open[key]
        if not o then
          o = {q = L.q}
          open[key] = o
        end
        o[#o + 1], o[#o + 2] = fmt('%d', L.head), line
      end
    end
  end
  if #bases == 1 then
    local L = bases[1]
    local k = L.n + L.s
    if call('HINCRBY', P .. 'lr', L.base, k) == k then
      local n = call('HLEN', P .. 'ld')
      if n == 15 then hset(P .. 'lr', n, {L.base, fmt('%d', k)}) end
      hset(P .. 'ld', n, {L.base, L.def})
    end
  else
    local names, lr, ld = {}, {}, {}
    for i = 1, #bases do names[i] = bases[i].base end
    local have = call('HMGET', P .. 'lr', unpack(names))
    for i = 1, #bases do
      local L = bases[i]
      lr[2 * i - 1], lr[2 * i] = L.base, fmt('%d', tonumber(have[i] or '0') + L.n + L.s)
      if not have[i] then ld[#ld + 1], ld[#ld + 2] = L.base, L.def end
    end
    local k = #ld > 0 and call('HLEN', P .. 'ld') or 16
    hset(P .. 'lr', k, lr)
    if #ld > 0 then hset(P .. 'ld', k, ld) end
  end
  for key, o in pairs(open) do
    local added = call('ZADD', key, 'LT', unpack(o))
    if added > 0 then
      local k = call('ZCARD', key)
      if k >= 16 and k - added < 16 then astree(key) end
      if k == added or crowded and call('ZCOUNT', key, 0, '+inf') == added then publish('w|i|' .. o.q) end
    end
  end
  for q, c in pairs(cnt) do
    for f, d in pairs(c) do
      if d > 0 and call('HINCRBY', P .. 'n|' .. q, f, d) == d then call('SADD', P .. 'qs', q) end
    end
  end
  sumup(P .. 'g', grp)
  return table.concat(code), say, a
end
