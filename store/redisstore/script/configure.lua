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
local rates = call('HKEYS', P .. 'rt')
call('DEL', P .. 'cfg')
for i = 1, #set, 4000 do call('HSET', P .. 'cfg', unpack(set, i, min(i + 3999, #set))) end
call('HSET', KEYS[1], 'cv', fmt('%.0f', cv + 1), 'v', ARGV[2])
QC = {}
for _, f in ipairs(rates) do -- a rate that is gone leaves no bucket
  local q, lane = string.match(f, '^(.*)|(.)$')
  if q and qcfg(q).rate[lane == 'i' and 1 or 2] <= 0 then call('HDEL', P .. 'rt', f) end
end
publish('f')
return {1, cv + 1, ARGV[3]}
