#!lua flags=allow-oom
-- configure.lua: replaces the configuration if its version is still the expected one.
-- KEYS  the guard pair
-- ARGV  expected version, visibility in ns, JSON, limits as JSON (see limit.go), then names and values for the hash cfg: queues, packed (see
--       config.go); ~queue|group, weights; =limit|value, a max of its own
-- reply {1 if replaced, version, JSON}
-- include: base holds lim
local err = begin(false)
if err then return err end
if cv ~= tonumber(ARGV[1]) then return {0, cv, call('HGET', P .. 'cfg', '') or ''} end
local fair, changed = {}, {}
for _, q in ipairs(call('SMEMBERS', P .. 'vq')) do fair[q], changed[q] = true, true end
local limits, old, names = cjson.decode(ARGV[4]), limited, {}
local set = {'', ARGV[3]}
for i = 5, #ARGV do set[#set + 1] = ARGV[i] end
local rates = call('HGETALL', P .. 'rt')
call('DEL', P .. 'cfg')
for i = 1, #set, 4000 do call('HSET', P .. 'cfg', unpack(set, i, min(i + 3999, #set))) end
cv = cv + 1
call('HSET', KEYS[1], 'cv', fmt('%d', cv), 'v', ARGV[2])
QC = {}
for i = 1, #rates, 2 do -- a rate that is gone leaves no bucket; one that is not full yet counts if the rate comes back
  local q, lane = string.match(rates[i], '^(.*)|(.)$')
  if q and qcfg(q).rate[lane == 'i' and 1 or 2] <= 0 and tonumber(rates[i + 1]) <= run then call('HDEL', P .. 'rt', rates[i]) end
end
for i = 1, #limits do names[limits[i].n] = true end
for _, l in ipairs(old and cmsgpack.unpack(old) or {}) do
  if not names[l.n] then call('SADD', P .. 'lo', l.n) end
end
for i = 5, #ARGV, 2 do
  local q = ARGV[i]
  local b = byte(q)
  if b ~= 126 and b ~= 61 and qcfg(q).fair then
    changed[q] = not fair[q] or nil
    if not fair[q] then call('SADD', P .. 'vq', q) end
  end
end
if #limits > 0 or old or next(changed) then -- with the last of what is left, maintenance takes it away
  limited = cmsgpack.pack(limits)
  call('HSET', KEYS[1], 'lim', limited)
end
for q in pairs(changed) do
  if fair[q] then call('SREM', P .. 'vq', q) end
  lim().fairagain(q)
end
if call('EXISTS', P .. 'fd') == 1 then call('HSET', KEYS[1], 'fcv', '0') end -- each filed line is tested again
if limited then -- what was raised opens now, as far as it is little; the rest with its next re-test
  local left = BOUND
  for name in pairs(names) do
    call('SREM', P .. 'lo', name)
    if left > 0 and call('HLEN', P .. 'lf|' .. name) <= left then
      for _, v in ipairs(call('HKEYS', P .. 'lf|' .. name)) do
        left = left - 1
        lim().hint(LM.keyof(name .. '|' .. v))
      end
    end
  end
  if LM then LM.finish() end
end
publish('f')
return {1, cv, ARGV[3]}
