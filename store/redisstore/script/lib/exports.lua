-- exports.lua: what the scripts use of this folder.
LIB = {
  flush = flush, incr = incr, zrem = zrem, zadd = zadd, sadd = sadd, srem = srem, hdel = hdel, wake = wake,
  decode = decode, encode = encode, erase = erase, save = save, load = load, setaside = setaside, homeless = homeless,
  event = event, isended = isended, ifended = ifended, expire = expire, cancelatrest = cancelatrest, visitover = visitover,
  reap = reap, settle = settle, cancel = cancel, act = act, isdue = isdue, promote = promote,
  released = released, enter = enter, leave = leave, follow = follow, finkey = finkey, unlive = unlive, relive = relive, newline = newline, finish = finish, unfinish = unfinish,
  forget = forget, entomb = entomb, purgeable = purgeable, purgeat = purgeat, stripatend = stripatend, holder = holder, unbox = unbox,
  beat = beat, linename = linename, score = score, xscore = xscore,
}
