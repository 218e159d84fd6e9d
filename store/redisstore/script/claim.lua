#!lua flags=allow-oom
-- claim.lua: bounded maintenance, then leases for all wants of one worker.
-- KEYS  the guard pair
-- ARGV  worker, nonce, free of intake, free of repoll, bytes, rooms (by blanks; ! before them: a want behind one that says
--       more gets nothing), number of wants; for each want: queue, lane (i, k), max, turn
--       (-1: cancel visits alone), suspect (0, 1), number of types; for each type: type, batch, its rooms (from 1, by blanks)
-- reply {maintenance, {granted, why, next in ms} for each want flat, first token, grants, ids, records, definitions of lines,
--       lease values, ends of leases}; the grants are runs: lane, class, items of each but the last (2 bytes), items of all (2 bytes),
--       line (2 bytes). The last two only when a claim is repeated; else, if there are limits, one list in their place: the key that stopped
--       each want (- if none did) by blanks; grants of which leases say something else than of others of their lines, and which of the last texts
--       (2 bytes each, 0 none); for each line what its leases say of memberships; those texts.
--       why: 0 full, 1 empty, 2 paused, 3 rate, 4 throttled, 5 more, 6 limit
-- include: base rate holds lib lim sweep maintenance grants heads fairly want
local err = begin(true)
if err then return err end
local M = maintain()
local last = call('GETRANGE', P .. 'k|' .. worker, 0, #nonce)
if last == '-' then return {M, {}, 0, '', {}, {}, {}} end -- it has taken itself off
if last == nonce .. ' ' then return again(sub(call('GET', P .. 'k|' .. worker), #nonce + 2), nonce) end
ready()
local a, report, keys, rooms, more = 8, {}, {}, {}, sub(ARGV[6], 1, 1) == '!' and {} or nil
for n in string.gmatch(ARGV[6], '%d+') do rooms[#rooms + 1] = {left = tonumber(n)} end
for _ = 1, tonumber(ARGV[7]) do
  local types, n = {}, tonumber(ARGV[a + 5])
  for i = 1, n do
    local b = a + 3 + 3 * i
    local t = {ty = ARGV[b], batch = tonumber(ARGV[b + 1])}
    if ARGV[b + 2] ~= '' then
      t.rooms = {}
      for r in string.gmatch(ARGV[b + 2], '%d+') do t.rooms[#t.rooms + 1] = rooms[tonumber(r)] end
    end
    types[i] = t
  end
  local granted, why, next, key = 0, 5, 0, nil
  if not (more and more[ARGV[a + 1]]) then
    granted, why, next, key = want(ARGV[a], ARGV[a + 1], tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]), ARGV[a + 4] == '1', types)
  end
  local r = #report
  report[r + 1], report[r + 2], report[r + 3] = granted, why, next
  keys[#keys + 1] = key or '-'
  if why == 5 then
    M[2] = 1
    if more then more[ARGV[a + 1]] = true end
  end
  if next > 0 then sooner(next) end
  a = a + 6 + 3 * n
end
call('SET', P .. 'k|' .. worker, nonce .. ' ' .. cmsgpack.pack({T0 or 0, gids, runlane, runclass, runbatch, runitems, runline}), 'PX', '600000')
local g = packruns()
if limited then return {M, report, T0 or 0, g, gids, grecs, defs(), packtails(keys)} end
return {M, report, T0 or 0, g, gids, grecs, defs()}
