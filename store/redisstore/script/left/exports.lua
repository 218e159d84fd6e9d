-- exports.lua: what is used of this folder.
LO = {
  keyof = keyof, mark = mark, drop = drop, released = released, release = release, findsolo = findsolo, rejoin = rejoin, waiting = waiting, stand = stand,
  writeleft = writeleft, alreadyshut = alreadyshut,
}
for k, f in pairs(LO) do LM[k] = f end
