#!lua flags=no-writes
-- limit.lua: what is known of one counted value of a limit.
-- KEYS  the guard pair
-- ARGV  limit|value
-- reply {} if no such limit is in force; else {{wall, run, lease, config version}, max, until, {rate per second, token bucket} as texts, burst, 1 if the
--       rate is closed, members, some ids of members, number of filed lines, the first of them: names, filings (see lim/filed.lua), how often each was
--       passed over, commands in each, definitions, 1 if it is open, since when it is filed}
-- include: base holds lim
local err = begin(false, true)
if err then return err end
local K = lim().keyof(ARGV[1])
local l = K.l
if not l then return {} end
local members = call('ZLEXCOUNT', P .. 'm|' .. K.name, '[' .. K.v .. '|', '(' .. K.v .. '}')
-- A command of cost c is c members: the first is its id alone, and so stands before the others.
local ids, from = {}, '[' .. K.v .. '|'
repeat
  local r = call('ZRANGEBYLEX', P .. 'm|' .. K.name, from, '(' .. K.v .. '}', 'LIMIT', 0, 1000)
  for i = 1, #r do
    local id = sub(r[i], #K.v + 2)
    if not string.find(id, '|', 1, true) and #ids < 1000 then ids[#ids + 1] = id end
  end
  from = '(' .. (r[#r] or '')
until #r < 1000 or #ids >= 1000
local lines = call('ZRANGE', P .. 'fl|' .. K.k, 0, 99)
local fd, fp, since, waiting, defs, open = {}, {}, {}, {}, {}, {}
if #lines > 0 then
  fd, fp = call('HMGET', P .. 'fd', unpack(lines)), call('HMGET', P .. 'fp', unpack(lines))
  since = call('HMGET', P .. 'ft', unpack(lines))
  local bases = {}
  for i = 1, #lines do
    waiting[i], bases[i] = call('ZCARD', P .. 'l|' .. lines[i]), sub(lines[i], 1, 16)
    fp[i] = tonumber(fp[i] or '0')
    open[i] = LM.shut(lines[i]) and 0 or 1
  end
  defs = call('HMGET', P .. 'ld', unpack(bases))
end
return {{wall, run, lease, cv}, K.max, l.t or 0, {fmt('%.17g', l.r or 0), call('HGET', P .. 'lb', K.k) or '0'}, l.u or 0, K.closed and 1 or 0, members, ids,
  call('ZCARD', P .. 'fl|' .. K.k), lines, fd, fp, waiting, defs, open, since}
