-- exports.lua: what the scripts use of this folder.
LM = {
  limits = limits, keyof = keyof, holds = holds, released = released, about = about, unfit = unfit, drop = drop, members = members, room = room,
  load = load, get = get, closed = closed, unfile = unfile, hint = hint, placed = placed, hints = hints, finish = finish, maintain = maintain,
  prepare = prepare, prepareone = prepareone, free = free, kept = kept, expected = expected, joinall = joinall, join = join, stop = stop,
  start = start, served = served, fairset = fairset, fairhead = fairhead, falldue = falldue, groups = groups, writeturns = writeturns, refair = refair,
  waiting = waiting, watch = function(f) onopen = f end,
}
