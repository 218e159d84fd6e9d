#!lua flags=allow-oom
-- configure.lua: replaces the configuration if its version is still the expected one.
-- KEYS  the guard pair
-- ARGV  expected version, visibility in ns, JSON, then for each queue: name, packed configuration (see config.go)
-- reply {1 if replaced, version, JSON}
-- include: base
local err = begin(false)
if err then return err end
if cv ~= tonumber(ARGV[1]) then return {0, cv, call('HGET', P .. 'cfg', '') or ''} end
local set = {'', ARGV[3]}
for i = 4, #ARGV do set[#set + 1] = ARGV[i] end
local rates = call('HGETALL', P .. 'rt')
call('DEL', P .. 'cfg')
for i = 1, #set, 4000 do call('HSET', P .. 'cfg', unpack(set, i, min(i + 3999, #set))) end
call('HSET', KEYS[1], 'cv', fmt('%d', cv + 1), 'v', ARGV[2])
QC = {}
for i = 1, #rates, 2 do -- a rate that is gone leaves no bucket; one that is not full yet counts if the rate comes back
  local q, lane = string.match(rates[i], '^(.*)|(.)$')
  if q and qcfg(q).rate[lane == 'i' and 1 or 2] <= 0 and tonumber(rates[i + 1]) <= run then call('HDEL', P .. 'rt', rates[i]) end
end
publish('f')
return {1, cv + 1, ARGV[3]}
