-- exports.lua: what the scripts use of this folder; what is missing is made when it is first asked for.
-- include: left filed turns
LM = setmetatable({
  limits = limits, about = about, anyfiled = anyfiled, hints = hints, finish = finish, maintain = maintain, prepare = prepare, free = free, most = most, kept = kept,
  enlist = enlist, joinall = joinall, join = join, stop = stop, lines = ABOUT, onopen = false,
}, {__index = function(t, k)
  left()
  local f = rawget(t, k)
  if f then return f end
  if sub(k, 1, 4) == 'fair' then turns() else filed() end
  return rawget(t, k)
end})
