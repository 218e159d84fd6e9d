-- exports.lua: what is used of this folder.
LT = {
  fairset = fairset, fairhead = fairhead, fairline = fairline, fairstart = start, fairserved = served, fairdue = falldue, fairgroups = groups,
  fairwrite = writeturns, fairbuild = rebuild, fairagain = refair,
}
for k, f in pairs(LT) do LM[k] = f end
