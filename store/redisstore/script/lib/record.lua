-- record.lua: the packed record of a command. The layout is described in record.go; both must agree.
local INLINE = 512 -- a longer state, result or error goes to a key of its own

-- decode raises an error on what is no record: call it with pcall unless the record was written in this step.
local function decode(id, s)
  local v, st, pl, seq, cr, f0, f1, f2, pr, ln, fp, p = sunpack('<BBBI6I6BBBxBc16c8', s)
  if v ~= 1 or st < 1 or st > 5 then error('no record') end
  local c = {id = id, st = st, pl = pl, seq = seq, cr = cr, f0 = f0, f2 = f2, pr = pr, ln = ln, fp = fp,
    el = 0, due = 0, starts = 0, polls = 0, fail = 0, loss = 0, dec = 0, nb = 0, sb = 0, dl = 0,
    last = '', opts = '', mf = 0, ret = 0, ca = 0, cu = 0, ce = 0, crs = '', uk = '', nt = '',
    ev = '', en = 0, hook = f0 >= 128, over = band(f2, 32) ~= 0, unk = band(f2, 64) ~= 0, ht = '', was = 0, reason = 0, ended = 0, purge = 0}
  if band(f0, 1) ~= 0 then
    c.el, c.due, c.starts, c.polls, c.fail, c.loss, c.dec, p = sunpack('<I6I6I4I4I4I2B', s, p)
  elseif pl == 1 then
    c.el = cr
  end
  if f2 >= 128 then
    c.ht, p = sunpack('<I2c0', s, p)
  end
  if st > 2 then
    c.reason, c.was, c.pl = floor(pl / 16), pl % 16 - 8, 0
    c.ended, c.purge, c.el, c.due = c.el, c.due, 0, 0
  elseif pl < 1 or pl > 2 then
    error('no place')
  end
  if band(f0, 2) ~= 0 then
    c.last, p = sunpack('<Bc0', s, p)
  end
  if band(f0, 4) ~= 0 then
    c.nb, c.sb, c.dl, p = sunpack('<I6I6I6', s, p)
  end
  if band(f1, 1) ~= 0 then
    c.opts = sub(s, p, p + 19)
    c.mf, c.ret, p = sunpack('<I4dxxxxxxxx', s, p)
  end
  if band(f0, 8) ~= 0 then
    c.ca, c.cu, c.ce, c.crs, p = sunpack('<I6I6BI4c0', s, p)
  end
  if band(f1, 2) ~= 0 then
    c.uk, p = sunpack('<Bc0', s, p)
    c.nt, p = sunpack('<Bc0', s, p)
  end
  if band(f1, 4) ~= 0 then
    c.m, p = sunpack('<I4c0', s, p)
  end
  if band(f1, 8) ~= 0 then
    if band(f0, 32) ~= 0 then c.sx, p = sunpack('<I4', s, p) else c.s, p = sunpack('<I4c0', s, p) end
  end
  if band(f1, 16) ~= 0 then
    if band(f2, 1) ~= 0 then c.ex, p = sunpack('<I4', s, p) else c.e, p = sunpack('<I4c0', s, p) end
  end
  if band(f1, 32) ~= 0 then
    if band(f2, 2) ~= 0 then c.rx, p = sunpack('<I4', s, p) else c.r, p = sunpack('<I4c0', s, p) end
  end
  if band(f1, 64) ~= 0 then
    c.g, p = sunpack('<I4c0', s, p)
  end
  if band(f1, 128) ~= 0 then
    c.en, c.ev, p = sunpack('<BI2c0', s, p)
  end
  if band(f0, 64) ~= 0 then
    c.tomb = sub(s, p)
  elseif band(f0, 16) ~= 0 then
    c.px, p = sunpack('<I4', s, p)
  else
    c.p = sub(s, p)
    c.pnil = band(f2, 16) ~= 0
  end
  if p > #s + 1 then error('short record') end
  return c
end

-- encode packs c again. Blobs that are too long or no longer there are written to or removed from their own keys.
local function encode(c)
  local id, f0, f1, f2 = c.id, 1, 0, 0
  local b, n = {}, 2
  local pl = c.pl
  if c.st > 2 then
    pl = 8 + c.was + 16 * c.reason
    b[2] = spack('<I6I6I4I4I4I2B', c.ended, c.purge, c.starts, c.polls, c.fail, c.loss, c.dec)
  else
    b[2] = spack('<I6I6I4I4I4I2B', c.el, c.due, c.starts, c.polls, c.fail, min(c.loss, 65535), c.dec)
  end
  if c.ht ~= '' then
    local h = c.leased and holds(c.ht).rest or c.ht
    if h ~= '' then
      f2, n = f2 + 128, n + 1
      b[n] = spack('<I2c0', #h, h)
    end
  end
  if c.last ~= '' then
    f0, n = f0 + 2, n + 1
    b[n] = spack('<Bc0', #c.last, c.last)
  end
  if c.nb ~= 0 or c.sb ~= 0 or c.dl ~= 0 then
    f0, n = f0 + 4, n + 1
    b[n] = spack('<I6I6I6', c.nb, c.sb, c.dl)
  end
  if c.opts ~= '' then
    f1, n = f1 + 1, n + 1
    b[n] = c.opts
  end
  if c.ca ~= 0 then
    f0, n = f0 + 8, n + 1
    b[n] = spack('<I6I6BI4c0', c.ca, c.cu, c.ce, #c.crs, c.crs)
  end
  if c.uk ~= '' or c.nt ~= '' then
    f1, n = f1 + 2, n + 1
    b[n] = spack('<Bc0Bc0', #c.uk, c.uk, #c.nt, c.nt)
  end
  if c.m then
    f1, n = f1 + 4, n + 1
    b[n] = spack('<I4c0', #c.m, c.m)
  end
  local s = c.s
  if s and #s > INLINE then
    wset[#wset + 1], wset[#wset + 2] = P .. 's|' .. id, s
    c.sx, s = #s, nil
  end
  if s then
    f1, n = f1 + 8, n + 1
    b[n] = spack('<I4c0', #s, s)
  elseif c.sx then
    f0, f1, n = f0 + 32, f1 + 8, n + 1
    b[n] = spack('<I4', c.sx)
  end
  s = c.e
  if s and #s > INLINE then
    wset[#wset + 1], wset[#wset + 2] = P .. 'e|' .. id, s
    c.ex, s = #s, nil
  end
  if s then
    f1, n = f1 + 16, n + 1
    b[n] = spack('<I4c0', #s, s)
  elseif c.ex then
    f1, f2, n = f1 + 16, f2 + 1, n + 1
    b[n] = spack('<I4', c.ex)
  end
  s = c.r
  if s and #s > INLINE then
    wset[#wset + 1], wset[#wset + 2] = P .. 'r|' .. id, s
    c.rx, s = #s, nil
  end
  if s then
    f1, n = f1 + 32, n + 1
    b[n] = spack('<I4c0', #s, s)
  elseif c.rx then
    f1, f2, n = f1 + 32, f2 + 2, n + 1
    b[n] = spack('<I4', c.rx)
  end
  if c.g then
    f1, n = f1 + 64, n + 1
    b[n] = spack('<I4c0', #c.g, c.g)
  end
  if c.en > 0 then
    f1, n = f1 + 128, n + 1
    b[n] = spack('<BI2c0', c.en, #c.ev, c.ev)
  end
  n = n + 1
  if c.tomb then
    f0 = f0 + 64
    b[n] = c.tomb
  elseif c.px then
    f0 = f0 + 16
    b[n] = spack('<I4', c.px)
  else
    if c.pnil then f2 = f2 + 16 end
    b[n] = c.p
  end
  if c.hook then f0 = f0 + 128 end
  if c.over then f2 = f2 + 32 end
  if c.unk then f2 = f2 + 64 end
  b[1] = spack('<BBBI6I6BBBBBc16c8', 1, c.st, pl, c.seq, c.cr, f0, f1, f2, 0, c.pr, c.ln, c.fp)
  -- what was in a key of its own and is no longer
  local o0, o2 = c.f0, c.f2
  if o0 and (band(o0, 48) ~= 0 or band(o2, 3) ~= 0) then
    if band(o0, 16) ~= 0 and band(f0, 16) == 0 then wdel[#wdel + 1] = P .. 'p|' .. id end
    if band(o0, 32) ~= 0 and band(f0, 32) == 0 then wdel[#wdel + 1] = P .. 's|' .. id end
    if band(o2, 1) ~= 0 and band(f2, 1) == 0 then wdel[#wdel + 1] = P .. 'e|' .. id end
    if band(o2, 2) ~= 0 and band(f2, 2) == 0 then wdel[#wdel + 1] = P .. 'r|' .. id end
  end
  return table.concat(b)
end

-- erase removes every key of the record c.
local function erase(c)
  wdel[#wdel + 1] = P .. 'c|' .. c.id
  if c.px then wdel[#wdel + 1] = P .. 'p|' .. c.id end
  if c.sx then wdel[#wdel + 1] = P .. 's|' .. c.id end
  if c.ex then wdel[#wdel + 1] = P .. 'e|' .. c.id end
  if c.rx then wdel[#wdel + 1] = P .. 'r|' .. c.id end
end

local function save(c)
  local s = encode(c)
  local n = #wset
  wset[n + 1], wset[n + 2] = P .. 'c|' .. c.id, s
end
