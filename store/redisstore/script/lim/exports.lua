-- exports.lua: what the scripts use of this folder; what is missing is made when it is first asked for.
-- include: filed turns
LM = setmetatable({
  limits = limits, keyof = keyof, released = released, about = about, drop = drop, members = members, anyfiled = anyfiled, hints = hints,
  finish = finish, maintain = maintain, prepare = prepare, free = free, kept = kept, joinall = joinall, lines = ABOUT, onopen = false,
}, {__index = function(t, k)
  if sub(k, 1, 4) == 'fair' then turns() else filed() end
  return rawget(t, k)
end})
