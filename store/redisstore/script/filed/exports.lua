-- exports.lua: what is used of this folder.
LF = {
  load = load, states = states, loadkeys = loadkeys, get = get, count = count, lower = lower, shut = shut, unfile = unfile, hint = hint, hintall = hintall, placed = placed,
  writelines = writelines, retests = retests, room = room, crowded = crowded, prepareone = prepareone, joinone = joinone,
  stopped = stopped, reclosed = reclosed, unfit = unfit, quiet = quiet,
}
for k, f in pairs(LF) do LM[k] = f end
