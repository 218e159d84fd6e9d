-- trim.lua: a queue keeps so many finished records; the oldest go first.
local FCODES = {'s', 'c', '1', '2', '3', '4', '5', '6', '7', '8'}

local function trim(q)
  local have = tonumber(call('HGET', P .. 'n|' .. q, 'f') or '0')
  local over = min(BOUND, have - qcfg(q).keep)
  if over <= 0 then
    call('SREM', P .. 'over', q)
    return
  end
  local old = {}
  for _, code in ipairs(FCODES) do
    local r = call('ZRANGE', P .. 'f|' .. q .. '|' .. code, 0, 2 * over, 'WITHSCORES')
    for i = 1, #r, 2 do old[#old + 1] = {r[i], tonumber(r[i + 1])} end
  end
  table.sort(old, function(a, b) return a[2] < b[2] or a[2] == b[2] and a[1] < b[1] end)
  local n = 0
  for i = 1, #old, 50 do
    local part = {}
    for j = i, min(#old, i + 49) do part[#part + 1] = P .. 'c|' .. old[j][1] end
    local rec = call('MGET', unpack(part))
    for j = 1, #part do
      if n < over then
        local c = load(old[i + j - 1][1], rec[j])
        if c and c.st > 2 and c.purge ~= 0 then
          n = n + 1
          MR[7] = MR[7] + 1
          c.purge = c.ended + 600000
          if purgeable(c) then
            forget(c)
          else
            unfinish(c)
            entomb(c)
          end
        end
      end
    end
    if n >= over then break end
  end
  if n == 0 then -- all of them wait for their outbox
    call('SREM', P .. 'over', q)
  elseif have - n > qcfg(q).keep then
    MR[2] = 1
  end
end
