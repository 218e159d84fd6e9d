#!lua flags=no-writes
-- audit.lua: reads what an audit looks at, a bounded piece at a time.
-- KEYS  the guard pair
-- ARGV  what and its arguments
-- reply by what:
--       scan, cursor: {cursor, keys of the namespace}
--       members, key, type, cursor: {cursor, members or fields, scores or values}
--       ids, ids: {{wall, run, lease, config version}, for each id: {record, lease, end of lease, scores in sr, sn, x, xl, z, lost, in cx, in od,
--       line, score in it, score in its finished list, holder of its unique key, whether there are blobs p, s, e, r, keys of limits that do not
--       count it though it is a member}, definitions}
--       at, key, id pairs: the score or value of each id in each key, 'nil' if it is not there
--       lines, lines: for each: {open key, score there, head's score, score among the closed ones, filing, score under its key, re-test, since when
--       room stands under its key, 1 if the key has room for it, run clock of the last step, score among the lines of its group, among the polls
--       that are not due, start of its group, 1 if the queue is fair, 1 if that is being made anew, 1 if no time of its own says when it is tested again}
--       sums, keys of numbers: {meta, numbers of each}, flat
-- include: base holds lib lim
local err = begin(false, true)
if err then return err end
local what = ARGV[1]
if what == 'scan' then
  local r = call('SCAN', ARGV[2], 'MATCH', P .. '*', 'COUNT', 500)
  return {r[1], r[2]}
elseif what == 'members' then
  local key, typ, cur = P .. ARGV[2], ARGV[3], ARGV[4]
  if typ == 'list' then
    local from = tonumber(cur)
    local l = call('LRANGE', key, from, from + 199)
    return {#l == 200 and fmt('%d', from + 200) or '0', l, {}}
  end
  local cmd = typ == 'zset' and 'ZSCAN' or typ == 'hash' and 'HSCAN' or 'SSCAN'
  local r = call(cmd, key, cur, 'COUNT', 200)
  if typ == 'set' then return {r[1], r[2], {}} end
  local a, b = {}, {}
  for i = 1, #r[2], 2 do a[#a + 1], b[#b + 1] = r[2][i], r[2][i + 1] end
  return {r[1], a, b}
elseif what == 'ids' then
  local H, out, bases, seen = lib(), {}, {}, {}
  for i = 2, #ARGV do
    local id = ARGV[i]
    local rec, t = record(id), call('HGET', P .. 'T', id)
    local row = {rec or '', t or '', call('ZSCORE', P .. 'L', id) or ''}
    for k, z in ipairs({'sr', 'sn', 'x', 'xl', 'z', 'lost'}) do row[3 + k] = call('ZSCORE', P .. z, id) or '' end
    row[10], row[11] = call('SISMEMBER', P .. 'cx', id), call('SISMEMBER', P .. 'od', id)
    row[12], row[13], row[14], row[15] = '', '', '', ''
    local c = H.load(id, rec, t)
    if c then
      if not c.tomb and not seen[c.ln] then
        seen[c.ln] = true
        bases[#bases + 1], bases[#bases + 2] = c.ln, c.d.raw
      end
      if c.st <= 2 then
        row[12] = H.linename(c)
        row[13] = call('ZSCORE', P .. 'l|' .. row[12], id) or ''
      else
        row[14] = call('ZSCORE', H.finkey(c), id) or ''
      end
      if c.uk ~= '' then row[15] = call('HGET', P .. 'u', c.uk) or '' end
    end
    for k, b in ipairs({'p', 's', 'e', 'r'}) do row[15 + k] = call('EXISTS', P .. b .. '|' .. id) end
    local none = {}
    local h = c and holds(c.ht) or {}
    for k = 1, #h, 2 do
      local name, v = string.match(h[k], '^([^|]*)|(.*)$')
      for i = 1, h.cost do
        if not call('ZSCORE', P .. 'm|' .. name, v .. '|' .. id .. (i > 1 and '|' .. i or '')) then none[#none + 1] = h[k] end
      end
    end
    row[20] = table.concat(none, ' ')
    out[#out + 1] = row
  end
  return {{wall, run, lease, cv}, out, bases}
elseif what == 'at' then
  local out = {}
  for i = 2, #ARGV, 2 do
    local key, id = P .. ARGV[i], ARGV[i + 1]
    local typ = call('TYPE', key).ok
    out[#out + 1] = typ == 'zset' and call('ZSCORE', key, id) or typ == 'hash' and call('HGET', key, id) or
      typ == 'set' and call('SISMEMBER', key, id) == 1 and '1' or 'nil'
  end
  return out
elseif what == 'lines' then
  local out = {}
  for i = 2, #ARGV do
    local line = ARGV[i]
    local h = call('ZRANGE', P .. 'l|' .. line, 0, 0, 'WITHSCORES')
    local q, ty, g = string.match(call('HGET', P .. 'ld', sub(line, 1, 16)) or '', '^([^ ]+) ([^ ]+) ([^ ]*) ')
    local key, s, shut = '', '', ''
    if q then
      key = openkey(q, sub(line, 17, 17), sub(line, 18, 18), ty)
      s = call('ZSCORE', key, line) or ''
      key = sub(key, #P + 1)
      if s ~= '' and tonumber(s) < 0 then s, shut = '', fmt('%d', -s) end
    end
    local row = {key, s, h[2] or '', shut, '', '', '', '', '', call('HGET', KEYS[1], 'run')}
    row[7] = call('ZSCORE', P .. 'fr', line) or ''
    local F = lim().get(line)
    if F then
      local K = LM.keyof(F.key)
      row[5] = call('HGET', P .. 'fd', line)
      row[6] = call('ZSCORE', P .. 'fl|' .. F.key, line) or ''
      row[8] = string.match(call('HGET', P .. 'fs', F.key) or '', '^%d*')
      row[9] = LM.room(K, F.cost) and '1' or ''
      row[16] = LM.quiet(K) and '1' or ''
    end
    row[11], row[12], row[13], row[14], row[15], row[16] = '', '', '', '', '', row[16] or ''
    if q then
      local name = sub(key, 3)
      row[11], row[12] = call('ZSCORE', P .. 'vl|' .. name .. '|' .. g, line) or '', call('ZSCORE', P .. 'vd|' .. name, line) or ''
      row[13] = call('ZSCORE', P .. 'vg|' .. name, g) or ''
      row[14], row[15] = qcfg(q).fair and '1' or '', call('HEXISTS', P .. 'vb', name) == 1 and '1' or ''
    end
    out[#out + 1] = row
  end
  return out
elseif what == 'sums' then
  local out = {call('HGETALL', KEYS[1])}
  for i = 2, #ARGV do out[#out + 1] = call('HGETALL', P .. ARGV[i]) end
  return out
end
return redis.error_reply('unknown audit ' .. what)
