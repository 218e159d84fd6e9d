-- read.lua: read(ids, noblobs): consistent snapshots: records, values and ends of leases, blobs that have keys of their own in the order in
-- which their records name them, and the definitions of lines by base.
local function read(ids, noblobs)
  if #ids == 0 then return {{}, {}, {}, {}, {}} end
  local ks, recs = {}, nil
  for i = 1, #ids do ks[i] = P .. 'c|' .. ids[i] end
  recs = call('MGET', unpack(ks))
  local t, z = call('HMGET', P .. 'T', unpack(ids)), call('ZMSCORE', P .. 'L', unpack(ids))
  local ext, bases, seen, ends = {}, {}, {}, {}
  for i = 1, #ids do
    local s, id = recs[i], ids[i]
    ends[i] = tonumber(z[i] or '0')
    if s and #s >= 44 then
      local f0, f1, f2, base = byte(s, 16), byte(s, 17), byte(s, 18), sub(s, 21, 36)
      if not seen[base] and band(f0, 64) == 0 then
        seen[base] = true
        bases[#bases + 1] = base
      end
      if band(f0, 48) ~= 0 or band(f2, 3) ~= 0 then
        if not noblobs and band(f1, 8) ~= 0 and band(f0, 32) ~= 0 then ext[#ext + 1] = P .. 's|' .. id end
        if band(f1, 16) ~= 0 and band(f2, 1) ~= 0 then ext[#ext + 1] = P .. 'e|' .. id end
        if not noblobs and band(f1, 32) ~= 0 and band(f2, 2) ~= 0 then ext[#ext + 1] = P .. 'r|' .. id end
        if not noblobs and band(f0, 64) == 0 and band(f0, 16) ~= 0 then ext[#ext + 1] = P .. 'p|' .. id end
      end
    end
  end
  local vals, defs = {}, {}
  if #ext > 0 then vals = call('MGET', unpack(ext)) end
  if #bases > 0 then
    local d = call('HMGET', P .. 'ld', unpack(bases))
    for i = 1, #bases do
      if d[i] then defs[#defs + 1], defs[#defs + 2] = bases[i], d[i] end
    end
  end
  return {recs, t, ends, vals, defs}
end
