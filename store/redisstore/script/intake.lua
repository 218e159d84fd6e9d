-- intake.lua: submit(a, opt): adds the commands that begin at ARGV[a].
-- from ARGV[a]: number of items, number of lines; for each line: base, definition, queue, type, group; the line of each item (2 bytes each,
-- empty if there is one line), delays (8 bytes each, empty if none has one); for each item: id, record from its flags on, and its params
-- if their size stands at the end of the record.
-- It returns one string of two bytes for each item (code, status), a list of what else there is to say, and where ARGV goes on.
-- codes: C created, K known, X other contents, U unique key is held (holder and its status follow), F queue is full, A aborted
local function submit(a, capped, atomic)
  local n, nl = tonumber(ARGV[a]), tonumber(ARGV[a + 1])
  local lines = {}
  a = a + 2
  for i = 1, nl do
    lines[i] = {base = ARGV[a], def = ARGV[a + 1], q = ARGV[a + 2], ty = ARGV[a + 3], g = ARGV[a + 4], n = 0, s = 0, za = {}}
    a = a + 5
  end
  local which, delays = ARGV[a], ARGV[a + 1]
  a = a + 2
  local ids, rests, ks, ps = {}, {}, {}, {}
  for i = 1, n do
    local id, r = ARGV[a], ARGV[a + 1]
    ids[i], rests[i], ks[i] = id, r, P .. 'c|' .. id
    a = a + 2
    if band(byte(r, 1), 16) ~= 0 then
      ps[i] = ARGV[a]
      a = a + 1
    end
  end
  local known = n > 0 and call('MGET', unpack(ks)) or {}
  local keys, keyat, held = {}, {}, {}
  for i = 1, n do
    local f0, f1 = byte(rests[i], 1, 2)
    if band(f1, 2) ~= 0 then -- a unique key, or a topic
      local p = 30
      if band(f0, 4) ~= 0 then p = p + 18 end
      if f1 % 2 == 1 then p = p + 20 end
      local u = sunpack('<Bc0', rests[i], p)
      if u ~= '' then keys[#keys + 1], keyat[i] = u, #keys + 1 end
    end
  end
  if #keys > 0 then held = call('HMGET', P .. 'u', unpack(keys)) end
  local code, say, fresh, refused = {}, {}, {}, false
  local here, uniq, room = {}, {}, {}
  for i = 1, n do
    local id, r, rec = ids[i], rests[i], known[i]
    local L = lines[which == '' and 1 or byte(which, 2 * i - 1) * 256 + byte(which, 2 * i)]
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
    if not code[i] and capped then
      local most = qcfg(L.q).ready
      if most > 0 then
        local m = room[L.q] or tonumber(call('HGET', P .. 'n|' .. L.q, 'p') or '0')
        if m >= most then code[i] = 'F0' end
        room[L.q] = code[i] and m or m + 1
      end
    end
    if code[i] then
      local k = byte(code[i], 1)
      refused = refused or k ~= 75
    else
      code[i], here[id] = 'C1', r
      if u then uniq[u] = id end
      fresh[#fresh + 1] = i
    end
  end
  if atomic and refused then
    for i = 1, n do
      local k = byte(code[i], 1)
      if k == 67 or k == 75 then code[i] = 'A0' end
    end
    return table.concat(code), say, a
  end
  if #fresh == 0 then return table.concat(code), say, a end
  -- decided: write
  local m = #fresh
  local seq = call('HINCRBY', KEYS[1], 'seq', m) - m
  local set, x, sn, us = {}, {}, {}, {}
  for j = 1, m do
    local i = fresh[j]
    local id, r = ids[i], rests[i]
    local L = lines[which == '' and 1 or byte(which, 2 * i - 1) * 256 + byte(which, 2 * i)]
    seq = seq + 1
    local place, f0 = 1, byte(r, 1)
    local dl, prio = 0, byte(r, 5)
    if band(f0, 4) ~= 0 then
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
    set[#set + 1], set[#set + 2] = ks[i], spack('<BBBI6I6', 1, 1, place, seq, wall) .. r
    if ps[i] then set[#set + 1], set[#set + 2] = P .. 'p|' .. id, ps[i] end
    if place == 1 then
      local s
      if qcfg(L.q).order == 1 then
        s = dl ~= 0 and dl or 14516236800000 + seq
      else
        s = prio * 17592186044416 + seq
      end
      local k = L.n * 2
      L.za[k + 1], L.za[k + 2] = s, id
      L.n = L.n + 1
      if not L.head or s < L.head then L.head = s end
    else
      L.s = L.s + 1
    end
  end
  for i = 1, #set, 4000 do call('MSET', unpack(set, i, min(i + 3999, #set))) end
  if #sn > 0 then call('ZADD', P .. 'sn', unpack(sn)) end
  if #x > 0 then call('ZADD', P .. 'x', unpack(x)) end
  for u, id in pairs(uniq) do us[#us + 1], us[#us + 2] = u, id end
  if #us > 0 then call('HSET', P .. 'u', unpack(us)) end
  local cnt, grp, bases, open = {}, {}, {}, {}
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
      call('ZADD', P .. 'l|' .. line, unpack(L.za))
      local o = open[key]
      if not o then
        o = {q = L.q}
        open[key] = o
      end
      o[#o + 1], o[#o + 2] = L.head, line
    end
  end
  if #bases == 1 then
    local L = bases[1]
    local k = L.n + L.s
    if call('HINCRBY', P .. 'lr', L.base, k) == k then call('HSET', P .. 'ld', L.base, L.def) end
  else
    local names, lr, ld = {}, {}, {}
    for i = 1, #bases do names[i] = bases[i].base end
    local have = call('HMGET', P .. 'lr', unpack(names))
    for i = 1, #bases do
      local L = bases[i]
      lr[2 * i - 1], lr[2 * i] = L.base, fmt('%d', tonumber(have[i] or '0') + L.n + L.s)
      if not have[i] then ld[#ld + 1], ld[#ld + 2] = L.base, L.def end
    end
    call('HSET', P .. 'lr', unpack(lr))
    if #ld > 0 then call('HSET', P .. 'ld', unpack(ld)) end
  end
  for key, o in pairs(open) do
    local added = call('ZADD', key, 'LT', unpack(o))
    if added > 0 and call('ZCARD', key) == added then publish('w|i|' .. o.q) end
  end
  for q, c in pairs(cnt) do
    for f, d in pairs(c) do
      if d > 0 and call('HINCRBY', P .. 'n|' .. q, f, d) == d then call('SADD', P .. 'qs', q) end
    end
  end
  for g, d in pairs(grp) do call('HINCRBY', P .. 'g', g, d) end
  return table.concat(code), say, a
end
