-- exports.lua: what is used of this folder.
LR = {
  keyin = keyin, countof = countof, members = members, keysof = keysof, waits = waits, most = most, kept = kept, free = free, stop = stop, join = join,
  forget = forget,
}
for k, f in pairs(LR) do LM[k] = f end
