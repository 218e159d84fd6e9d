-- holds.lua: holds(text) reads what a lease or a record says of memberships: !, if the lease is over a limit that classifies; * and the cost, if it
-- is not 1; then for each membership limit|value|scope (i, c), by limit name; all parted by blanks. It answers keys (limit|value) and scopes in
-- turn; cost; rest, the text of those that stay between polls; and has, by key.
local TEXTS = {}
local function holds(text)
  local h = TEXTS[text]
  if h then return h end
  h = {cost = 1, rest = '', has = {}}
  local at, n, first = 1, 0, ''
  while at <= #text do
    local e = string.find(text, ' ', at, true) or #text + 1
    local b = byte(text, at)
    if b == 42 then
      h.cost, first = tonumber(sub(text, at + 1, e - 1)), sub(text, at, e)
    elseif b ~= 33 and e > at then
      local k, s = sub(text, at, e - 3), sub(text, e - 1, e - 1)
      h[n + 1], h[n + 2], h.has[k] = k, s, true
      n = n + 2
      if s == 'c' then h.rest = (h.rest == '' and first or h.rest .. ' ') .. k .. '|c' end
    end
    at = e + 1
  end
  TEXTS[text] = h
  return h
end
