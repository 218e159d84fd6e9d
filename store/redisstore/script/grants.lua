-- grants.lua: what a claim hands out: runs of grants of one line that follow each other, and the same again for a repeated claim.
local gids, grecs, glines, lineno = {}, {}, {}, {}
local tails = {} -- what leases say of memberships, by the number of the grant
local odd = {}   -- those grants of which they say something else than of others of the line
local runlane, runclass, runbatch, runitems, runline = {}, {}, {}, {}, {} -- grants of one line that follow each other

local function defs()
  if #glines == 0 then return glines end
  if limited then
    local raw = {}
    for i = 1, #glines do
      local A = LM.lines[glines[i]]
      raw[i] = A and A.raw
    end
    if #raw == #glines then return raw end
  end
  return call('HMGET', P .. 'ld', unpack(glines))
end

local function lineindex(base)
  local i = lineno[base]
  if not i then
    i = #glines + 1
    glines[i], lineno[base] = base, i
  end
  return i
end

-- addrun notes a grant, or several of one item each.
local function addrun(lane, cl, batch, k, base)
  local n = #runlane
  if n > 0 and runline[n] == base and runclass[n] == cl and runlane[n] == lane and runbatch[n] == batch and runitems[n] % batch == 0 then
    runitems[n] = runitems[n] + k
  else
    n = n + 1
    runlane[n], runclass[n], runbatch[n], runitems[n], runline[n] = lane, cl, batch, k, base
  end
end

-- packtails says what limits have to say: the keys that stopped each want; grants of which leases do not say what those of their lines do, and which
-- of the last texts they have (2 bytes each, 0 none); for each line what its leases say; those texts.
local function packtails(keys)
  local texts, which, index, n = {table.concat(keys, ' '), ''}, {}, {}, 0
  for i = 1, #glines do
    local A = LM.lines[glines[i]]
    texts[i + 2] = A and A.tail or ''
  end
  for i = 1, #odd do
    local t = tails[odd[i]]
    if t and not index[t] then
      n = n + 1
      index[t], texts[#glines + 2 + n] = n, sub(t, 2)
    end
    which[i] = spack('<HH', odd[i], t and index[t] or 0)
  end
  texts[2] = table.concat(which)
  return texts
end

local function packruns()
  local b = {}
  for i = 1, #runlane do b[i] = spack('<BBHHH', runlane[i], runclass[i], runbatch[i], runitems[i], lineindex(runline[i])) end
  return table.concat(b)
end


-- again answers a claim that was made before: those of its leases that are still current. last is what was noted then.
local function again(last, nonce)
  local l = cmsgpack.unpack(last)
  local tok, ids, tvals, ends = l[1], l[2], {}, {}
  if #ids > 0 then
    local t, z = call('HMGET', P .. 'T', unpack(ids)), call('ZMSCORE', P .. 'L', unpack(ids))
    local ks = {}
    for i = 1, #ids do ks[i] = P .. 'c|' .. ids[i] end
    local rec, at = call('MGET', unpack(ks)), 0
    for r = 1, #l[3] do
      local batch = l[5][r]
      for from = at + 1, at + l[6][r], batch do
        local kept = 0
        for i = from, min(from + batch - 1, at + l[6][r]) do
          local name = fmt('%d', tok + i) .. '.' .. nonce .. ' '
          if t[i] and rec[i] and sub(t[i], 1, #name) == name then
            kept = kept + 1
            local k = #gids + 1
            gids[k], grecs[k], tvals[k], ends[k] = ids[i], rec[i], t[i], tonumber(z[i] or '0')
          end
        end
        if kept > 0 then
          local n = #runlane + 1
          runlane[n], runclass[n], runbatch[n], runitems[n], runline[n] = l[3][r], l[4][r], kept, kept, l[7][r]
        end
      end
      at = at + l[6][r]
    end
  end
  local g = packruns()
  return {MR, {}, 0, g, gids, grecs, defs(), tvals, ends}
end
