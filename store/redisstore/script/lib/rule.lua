-- rule.lua: the decisions of package rule, function by function, on a decoded record. q is the queue's configuration.

-- event appends to the last 16 events. kind is the code of record.go; text is cut by the caller.
local function event(c, kind, worker, text)
  if c.en >= 16 then
    local p = 8 + byte(c.ev, 8) + 1 -- at, kind, worker's length, worker, text's length
    c.ev, c.en = sub(c.ev, p + byte(c.ev, p) + 1), c.en - 1
  end
  c.ev = c.ev .. spack('<I6BBc0Bc0', wall, kind, #worker, worker, #text, text)
  c.en = c.en + 1
end

local REASONS = {'error', 'retries_exhausted', 'worker_lost', 'deadline_exceeded', 'expired', 'undecodable', 'dropped', 'too_large', [0] = ''}

-- drophold ends memberships: those of the invocation always, those of the command too if all is true.
local function drophold(c, all)
  if c.ht ~= '' then c.ht = all and '' or holds(c.ht).rest end
end

-- holding reports whether c kept a slot of scope command when its worker was lost.
local function holding(c) return c.unk and c.ht ~= '' and holds(c.ht).rest ~= '' end

local function endit(c, st, reason)
  c.was, c.st, c.reason, c.pl = c.st, st, reason, 0
  c.leased, c.over = false, false
  c.due, c.el, c.g, c.unk = 0, 0, nil, false
  drophold(c, true)
  c.ended = wall
  event(c, 13, c.owner or '', REASONS[reason])
  c.owner = ''
end

-- class is the last letter of the line: package rule's class, and 6 for PENDING suspects that hold a slot.
local function class(c)
  if c.st == 2 and c.ca ~= 0 then return c.loss >= 2 and 5 or 3 end
  if c.loss >= 2 then return c.st == 1 and holding(c) and 6 or 2 end
  if c.st == 1 and holding(c) then return 4 end
  if c.st == 1 and (c.fail > 0 or c.loss > 0) then return 1 end
  return 0
end

-- visits reports whether c waits for a cancel visit.
local function visits(c) return c.st == 2 and c.ca ~= 0 end

local function isended(c)
  if c.st > 2 or c.leased then return false end
  if c.dl ~= 0 and wall >= c.dl then return c.ca == 0 or c.st == 1 end
  return c.sb ~= 0 and c.starts == 0 and wall >= c.sb
end

local function visit(c, q)
  if c.cu == 0 then c.cu = wall + q.cancel end
  c.pl, c.due = 1, run
end

local function askcancel(c, reason, text)
  c.ca, c.crs, c.cu = wall, reason, 0
  event(c, 9, '', text)
end

local function pastdeadline(c, q)
  if c.st == 2 and c.hook then
    askcancel(c, 'deadline', 'deadline')
    c.ce = 4
    visit(c, q)
    return
  end
  endit(c, 4, 4)
end

local function expire(c, q)
  if c.dl == 0 or wall < c.dl then return endit(c, 4, 5) end
  pastdeadline(c, q)
end

local function cancelatrest(c, q)
  if c.st == 2 and c.hook and (c.cu == 0 or wall < c.cu) then return visit(c, q) end
  if c.st == 2 and c.hook then
    local e = c.e
    if not e and c.ex then e = call('GET', P .. 'e|' .. c.id) end
    c.e, c.ex = sub('cancel_hook_failed: ' .. (e or ''), 1, 65536), nil
  end
  if c.ce ~= 0 then return endit(c, 4, c.ce) end
  endit(c, 5, 0)
end

local function wait(c, d)
  if d <= 0 then return end
  c.due = run + d
  if c.st == 1 then c.pl, c.el = 2, 0 end
end

local function unlease(c)
  c.leased, c.over, c.pl = false, false, 1
  drophold(c, false)
end

local function rest(c, q)
  c.pl = 1
  if c.ca ~= 0 then
    cancelatrest(c, q)
  elseif isended(c) then
    expire(c, q)
  elseif c.st == 1 then
    c.el = wall
  end
end

local function losspause(n, token)
  if n < 2 then return 0 end
  local d = 5e9
  for i = 2, n - 1 do
    if d >= 3e11 then break end
    d = d * 3
  end
  d = min(d, 3e11)
  local half = d / 2
  return ceil((half + floor(half * (token % 65536 * 40503 % 65536) / 65536)) / 1e6)
end

local function lose(c, q, text, till)
  local held, token, owner = till - c.leasedat, c.token, c.owner
  c.unk = true
  unlease(c)
  if held * 1e6 > 2 * vns then c.loss = 1 else c.loss = c.loss + 1 end
  event(c, 6, owner, text)
  if c.loss >= q.losses and c.ca ~= 0 then
    c.cu = wall
    return cancelatrest(c, q)
  end
  if c.loss >= q.losses then
    if not c.e and not c.ex then c.e = 'its worker was lost too often in a row' end
    return endit(c, 4, 3)
  end
  rest(c, q)
  if c.st <= 2 then wait(c, losspause(c.loss, token)) end
end

-- reap ends a lease that ran until till.
local function reap(c, lives, q, till)
  c.starts, c.unk = c.starts + 1, true
  if lives then
    unlease(c)
    event(c, 7, c.owner, '')
    rest(c, q)
  else
    lose(c, q, '', min(lease, till)) -- it may be long before anybody is there to reap it
  end
  c.owner = ''
end

local function grid(due, g)
  if g <= 1 then return due end
  return floor((due + g - 1) / g) * g
end

local function retry(c, s, q, owner)
  c.fail = c.fail + 1
  c.e, c.ex = s.err, nil
  if s.decode then c.dec = c.dec + 1 else c.dec = 0 end
  event(c, 2, owner, s.text)
  if c.ca ~= 0 then return cancelatrest(c, q) end
  local d = max(s.delay, 100)
  if c.dec >= 5 then return endit(c, 4, 6) end
  if c.mf > 0 and c.fail >= c.mf then return endit(c, 4, 2) end
  if c.dl ~= 0 and wall + d >= c.dl then return pastdeadline(c, q) end
  wait(c, d)
end

-- settleit ends the lease of c. s: kind, reason, err (nil if empty), text (err cut for an event), blob, setstate, hook, delay, grid, decode, unstarted.
local function settleit(c, s, q)
  local kind, owner, poll = s.kind, c.owner, c.st == 2
  c.starts = c.starts + 1
  c.last = c.name
  if kind == 10 then
    lose(c, q, s.text, lease)
    c.owner = ''
    return
  end
  unlease(c)
  if kind == 7 then
    if s.unstarted then
      c.starts = c.starts - 1
    else
      c.unk = false
      event(c, 5, owner, s.text)
    end
    rest(c, q)
    if c.st <= 2 then wait(c, s.delay) end
    c.owner = ''
    return
  end
  c.loss, c.unk = 0, false
  if poll and kind ~= 8 and kind ~= 9 then c.polls = c.polls + 1 end
  if kind ~= 4 then c.dec = 0 end
  if kind == 1 then
    c.fail, c.e, c.ex, c.r, c.rx = 0, nil, nil, s.blob, nil
    endit(c, 3, 0)
  elseif kind == 2 then
    c.e, c.ex, c.r, c.rx = s.err, nil, s.blob, nil
    endit(c, 4, s.reason == 0 and 1 or s.reason)
  elseif kind == 3 then
    if c.st == 1 then event(c, 1, owner, '') end
    c.st, c.fail, c.e, c.ex, c.hook = 2, 0, nil, nil, s.hook
    if s.setstate then c.s, c.sx = s.blob, nil end
    c.el = 0
    rest(c, q)
    if c.st <= 2 and not visits(c) then c.due = grid(run + max(s.delay, 100), s.grid) end
  elseif kind == 4 then
    retry(c, s, q, owner)
  elseif kind == 5 or kind == 6 then
    if c.st == 1 or kind == 6 then event(c, kind == 6 and 4 or 3, owner, s.text) end
    rest(c, q)
    if c.st <= 2 and not visits(c) then wait(c, max(s.delay, 100)) end
  elseif kind == 8 then
    if c.ce ~= 0 then endit(c, 4, c.ce) else endit(c, 5, 0) end
  elseif kind == 9 then
    c.e, c.ex = s.err, nil
    event(c, 10, owner, s.text)
    rest(c, q)
    if c.st <= 2 then wait(c, max(s.delay, 100)) end
  end
  c.owner = ''
end

local function settle(c, s, q)
  settleit(c, s, q)
  if c.st == 1 and not c.leased and not c.unk then drophold(c, true) end
end

-- cancel records a request and says what became of it: 1 ended, 2 requested, 3 too late.
local function cancel(c, reason, text, force, q)
  if c.st == 5 then return 1 end
  if c.st > 2 then return 3 end
  if force then
    if c.ca == 0 then askcancel(c, reason, text) end
    if c.leased then
      c.starts = c.starts + 1
      unlease(c)
    end
    c.ce = 0
    endit(c, 5, 0)
    return 1
  end
  if c.ca ~= 0 then
    if c.ce ~= 0 and c.st == 2 then c.ce = 0 end
    return 2
  end
  askcancel(c, reason, text)
  if not c.leased then cancelatrest(c, q) end
  return c.st == 5 and 1 or 2
end

local function visitover(c) return c.pl == 1 and not c.leased and visits(c) and wall >= c.cu end

local function isdue(c) return c.pl == 2 and c.due <= run and c.nb <= wall end

local function promote(c, seq) c.pl, c.due, c.seq, c.el = 1, 0, seq, wall end

-- act does operator work; it returns nil or why not. a: kind, as, deadline, queue, prio, by.
local function act(c, a, nextseq)
  local kind = a.kind
  if kind == 1 then
    if c.st ~= 4 and c.st ~= 5 then return 'only FAILED and CANCELLED commands can be retried' end
    if c.tomb or c.nt ~= '' and c.purge == 0 then return 'its contents are gone, or its end is not delivered yet' end
    local dl = a.deadline ~= 0 and a.deadline or c.dl
    if dl ~= 0 and dl <= wall then return 'its deadline has passed; give a new one' end
    local st = c.was
    if a.as == 1 then
      st = 1
    elseif a.as == 2 and st ~= 2 then
      return 'it was never PROCESSING'
    end
    c.was, c.st, c.reason, c.pl, c.seq = 0, st, 0, 1, nextseq()
    c.dl, c.sb, c.nb = dl, 0, 0
    c.fail, c.loss, c.dec, c.unk = 0, 0, 0, false
    c.ended, c.purge, c.r, c.rx = 0, 0, nil, nil
    c.ca, c.cu, c.crs, c.ce = 0, 0, '', 0
    if st == 1 then
      c.s, c.sx, c.hook, c.due, c.el = nil, nil, false, 0, wall
    else
      c.due, c.el = run, 0
    end
    event(c, 11, '', a.by)
  elseif kind == 3 then
    if c.st > 2 or c.leased then return 'only a live command that is not leased can be moved' end
    event(c, 12, '', sub('from ' .. a.from .. ' to ' .. a.queue, 1, 200))
  elseif kind == 4 then
    if c.st > 2 then return 'it has ended' end
    c.pr = a.prio
  elseif kind == 5 then
    if c.st > 2 or c.leased then return 'only a live command that is not leased can run now' end
    if c.pl == 2 then
      c.nb = 0
      promote(c, nextseq())
    elseif c.st == 2 then
      c.due = min(c.due, run)
    end
  end
end
