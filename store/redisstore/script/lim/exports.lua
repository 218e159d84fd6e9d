-- exports.lua: what the scripts use of this folder; what is missing is made when it is first asked for.
-- include: room left filed turns
LM = setmetatable({
  limits = limits, about = about, anyfiled = anyfiled, hints = hints, finish = finish, maintain = maintain, prepare = prepare, enlist = enlist,
  joinall = joinall, lines = ABOUT, onopen = false, scoped = false, calm = false,
}, {__index = function(t, k)
  room()
  local f = rawget(t, k)
  if f then return f end
  left()
  f = rawget(t, k)
  if f then return f end
  if sub(k, 1, 4) == 'fair' then turns() else filed() end
  return rawget(t, k)
end})
