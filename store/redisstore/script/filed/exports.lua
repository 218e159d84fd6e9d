-- exports.lua: what is used of this folder.
LF = {
  load = load, get = get, shut = shut, unfile = unfile, hint = hint, hintall = hintall, placed = placed, writelines = writelines, retests = retests,
  room = room, crowded = crowded, release = release, waiting = waiting, prepareone = prepareone, join = join, stop = stop, unfit = unfit,
}
for k, f in pairs(LF) do LM[k] = f end
