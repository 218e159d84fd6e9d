#!lua flags=allow-oom
-- act.lua: operator work on ids.
-- KEYS  the guard pair
-- ARGV  kind (1 retry, 2 delete, 3 move, 4 reprioritise, 5 run now), as, deadline, queue, priority, force (0, 1), by, filter ('' or queue,
--       status, reason, type, group, before, after, up to, = or ! the priority; by blanks, empty as -), ids
-- reply {one byte for each id: d done, n not found, s not possible, u unique key is held, - does not match}, then for each s why and its
--       status, for each u the key, the holder and its status
-- include: base holds lib lim
local err = begin(false)
if err then return err end
local H, out, say = lib(), {}, {}
local a = {kind = tonumber(ARGV[1]), as = tonumber(ARGV[2]), deadline = tonumber(ARGV[3]), queue = ARGV[4], prio = tonumber(ARGV[5]), by = ARGV[7]}
local force, F = ARGV[6] == '1', nil
if ARGV[8] ~= '' then
  F = {}
  for w in string.gmatch(ARGV[8], '[^ ]+') do F[#F + 1] = w end
end

local function matches(c)
  local at = c.st > 2 and c.ended or c.cr
  local function is(i, v) return F[i] == '-' or F[i] == v end
  return not c.tomb and is(1, c.d.q) and is(2, fmt('%d', c.st)) and is(3, fmt('%d', c.reason)) and is(4, c.d.ty) and is(5, c.d.g) and
    (F[6] == '-' or at < tonumber(F[6])) and (F[7] == '-' or at >= tonumber(F[7])) and (F[8] == '-' or c.seq <= tonumber(F[8])) and
    (F[9] == '-' or (F[9] == '=') == (c.pr == a.prio))
end

local function nextseq() return call('HINCRBY', KEYS[1], 'seq', 1) end

local function delete(c)
  if c.leased and not force then return 's', 'it is leased; cancel it first, or force' end
  if c.st > 2 then
    if c.nt ~= '' and c.purge == 0 and not c.tomb then
      if not force then return 's', 'its end is not delivered yet; force deletes it all the same' end
      H.unbox(c)
    end
    H.forget(c)
    return 'd'
  end
  if c.leased then H.wake('c|' .. c.id) end
  H.leave(c)
  c.ht = ''
  H.released(c)
  H.unlive(c)
  H.incr(P .. 'lr', c.ln, -1)
  H.erase(c)
  return 'd'
end

local function move(c)
  -- a line is never re-made: the command goes to the line of the other queue
  local from = c.d.q
  local raw = a.queue .. sub(c.d.raw, #from + 1)
  H.incr(P .. 'lr', c.ln, -1)
  c.ln = sub(redis.sha1hex(raw), 1, 16)
  H.newline(c, raw)
end

local function one(id)
  local c = H.load(id, record(id), call('HGET', P .. 'T', id))
  if not c then
    if a.kind == 2 and call('ZSCORE', P .. 'lost', id) then
      H.zrem('lost', id)
      call('DEL', P .. 'c|' .. id, P .. 'p|' .. id, P .. 's|' .. id, P .. 'e|' .. id, P .. 'r|' .. id)
      return 'd'
    end
    return 'n'
  end
  if H.purgeable(c) then return 'n' end
  if F and not matches(c) then return '-' end
  if a.kind == 2 then return delete(c) end
  H.ifended(c)
  H.flush()
  if a.kind == 1 and c.uk ~= '' then
    local h, st = H.holder(c.uk, c.id)
    H.flush()
    if h then
      say[#say + 1], say[#say + 2], say[#say + 3] = c.uk, h, fmt('%d', st)
      return 'u'
    end
  end
  local was, live = {}, c.st <= 2
  for k, v in pairs(c) do was[k] = v end
  a.from = c.d.q
  local why = H.act(c, a, nextseq)
  if why then
    return 's', why
  end
  if live then
    if not c.leased then H.leave(was) end
    if a.kind == 3 then move(c) end
    if not c.leased then H.enter(c) end
    if a.kind == 5 then H.wake('w|' .. (c.st == 1 and 'i' or 'k') .. '|' .. c.d.q) end
  else
    H.unfinish(was)
    H.relive(c)
    H.enter(c)
    H.wake('w|' .. (c.st == 1 and 'i' or 'k') .. '|' .. c.d.q)
  end
  H.save(c)
  return 'd'
end

for i = 9, #ARGV do
  local r, why = one(ARGV[i])
  if r == 's' then
    local st = byte(record(ARGV[i]) or '', 2) or 0
    say[#say + 1], say[#say + 2] = why, fmt('%d', st)
  end
  out[#out + 1] = r
  H.flush()
end
return {table.concat(out), say}
