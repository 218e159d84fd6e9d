-- holds.lua: holds(text) reads what a lease or a record says of memberships: !, if the lease is over a limit that classifies; * and the cost, if it
-- is not 1; then for each membership limit|value|scope (i, c), by limit name; all parted by blanks. It answers in turn keys (limit|value) and scopes;
-- cost; rest, the text of those that stay between polls.
local TEXTS = {}
local function holds(text)
  local h = TEXTS[text]
  if h then return h end
  h = {nil, nil, cost = 1, rest = ''}
  TEXTS[text] = h
  local at, n, first = 1, 1, ''
  local z = #text
  while at <= z do
    local e = string.find(text, ' ', at, true) or z + 1
    local b = byte(text, at)
    if b == 42 then
      h.cost, first = tonumber(sub(text, at + 1, e - 1)), sub(text, at, e)
    elseif b ~= 33 and e > at then
      local k, s = sub(text, at, e - 3), sub(text, e - 1, e - 1)
      h[n], h[n + 1] = k, s
      n = n + 2
      if s == 'c' then h.rest = (h.rest == '' and first or h.rest .. ' ') .. k .. '|c' end
    end
    at = e + 1
  end
  return h
end

-- held says whether that text names a key.
local function held(text, k)
  local h = holds(text)
  for i = 1, #h, 2 do
    if h[i] == k then return true end
  end
  return false
end

local spare = 0 -- members that may still join before any limit has to be looked at
local newly = 0 -- lines that were filed and had not been
local full = {} -- lines that a claim has to leave alone: what they were granted has filled their limit, and they wait for it again

-- entries appends to l what stands for one member: head and id, as often as it costs, in their turn behind what each wants before it, if anything. It
-- returns how long l is then.
local function entries(l, head, id, cost, before)
  local n, m = #l, head .. id
  for i = 1, cost do
    if before then
      n = n + 1
      l[n] = before
    end
    n = n + 1
    l[n] = i == 1 and m or m .. '|' .. i
  end
  return n
end
