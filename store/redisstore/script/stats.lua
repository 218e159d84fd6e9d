#!lua flags=no-writes
-- stats.lua: numbers of a few queues; the work is bounded.
-- KEYS  the guard pair
-- ARGV  queues
-- reply {wall, run, lease, config version}, then for each queue: {counts (field, number, flat), repolls due, 1 if that is a lower bound,
--       next poll, oldest due of repoll, numbers of finished ones, records for the oldest of intake, filed lines by lane, token buckets by lane,
--       throttled rates (lane|type, rate, flat)}, then {ids, records, lease values, ends} of leases that are over,
--       of due scheduled ones, of those past their time, and of overdue ones; definitions
-- include: base read
local err = begin(false, true)
if err then return err end
local out = {{wall, run, lease, cv}}
local FCODES = {'s', 'c', '1', '2', '3', '4', '5', '6', '7', '8'}
local runs = fmt('%d', run)

local function oldest(line, recs)
  -- the first of each priority that is there
  local from, n = '-inf', 0
  while n < 16 and #recs < 300 do
    local r = call('ZRANGEBYSCORE', P .. 'l|' .. line, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 8)
    if #r == 0 then return end
    n = n + 1
    for i = 1, #r, 2 do recs[#recs + 1] = r[i] end
    local last = tonumber(r[#r])
    from = fmt('%d', (floor(last / 17592186044416) + 1) * 17592186044416)
  end
end

for _, q in ipairs(ARGV) do
  local n = call('HGETALL', P .. 'n|' .. q)
  local due, atleast, nextpoll, olddue, lines = 0, 0, 0, 0, 0
  local ids, fin, th = {}, {}, {}
  local throttles, asked = call('EXISTS', P .. 'th') == 1, {}
  for i = 1, #n, 2 do
    local lane, ty = sub(n[i], 1, 1), sub(n[i], 2)
    local of = ({i = 'i', k = 'k', I = 'i', K = 'k'})[lane] -- in line and leased
    if throttles and of and ty ~= '' and not asked[of .. ty] then
      asked[of .. ty] = true
      local t = call('HGET', P .. 'th', q .. '|' .. of .. '|' .. ty)
      if t then th[#th + 1], th[#th + 2] = of .. '|' .. ty, t end
    end
    if (lane == 'i' or lane == 'k') and ty ~= '' then
      for at = 0, limited and 13 or 6 do -- the open lines, and those that wait for limits
        local key = openkey(q, lane, at % 7, ty)
        local open = at < 7 and call('ZRANGEBYSCORE', key, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 64) or
          call('ZREVRANGEBYSCORE', key, '(0', '-inf', 'WITHSCORES', 'LIMIT', 0, 64)
        if #open == 128 then atleast = 1 end
        for j = 1, #open, 2 do
          lines = lines + 1
          if lines > 128 then
            atleast = 1
            break
          end
          if lane == 'k' then
            local h = tonumber(open[j + 1])
            if h < 0 then h = -h end
            if h <= run then
              due = due + call('ZCOUNT', P .. 'l|' .. open[j], '-inf', runs)
              if olddue == 0 or h < olddue then olddue = h end
            end
            local r = call('ZRANGEBYSCORE', P .. 'l|' .. open[j], '(' .. runs, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
            if r[2] and (nextpoll == 0 or tonumber(r[2]) < nextpoll) then nextpoll = tonumber(r[2]) end
          else
            oldest(open[j], ids)
          end
        end
      end
    end
  end
  for i, code in ipairs(FCODES) do fin[i] = call('ZCARD', P .. 'f|' .. q .. '|' .. code) end
  local filed, buckets = {}, {}
  for _, lane in ipairs({'i', 'k'}) do
    filed[#filed + 1] = tonumber(limited and call('HGET', P .. 'fn', q .. '|' .. lane) or '0')
    buckets[#buckets + 1] = call('HGET', P .. 'rt', q .. '|' .. lane) or '0'
  end
  out[#out + 1] = {n, due, atleast, nextpoll, olddue, fin, read(ids, true), filed, buckets, th}
end
local l = call('ZRANGEBYSCORE', P .. 'L', '-inf', fmt('%d', lease), 'LIMIT', 0, 300)
local s = call('ZRANGEBYSCORE', P .. 'sr', '-inf', '+inf', 'LIMIT', 0, 300)
for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'sn', '-inf', '+inf', 'LIMIT', 0, 300)) do s[#s + 1] = id end
local x = call('ZRANGEBYSCORE', P .. 'x', '-inf', fmt('%d', wall), 'LIMIT', 0, 300)
local o = call('SRANDMEMBER', P .. 'od', 300)
for _, ids in ipairs({l, s, x, o}) do out[#out + 1] = {ids, read(ids, true)} end
return out
