-- fairly.lua: fairly() is how a want looks at the lines of a fair queue: by group, those whose next turn starts first. It answers what heads.lua has
-- for other queues: open, front, insert, remove, without; and served, write. A G is a group: g, start, s (score of its first line), ls
-- (lines as heads.lua has them), from (where more of them are to be had).
local FAIRLY
local function fairly()
  if FAIRLY then return FAIRLY end
  lim()
  local turns, names, at -- of the want under way: groups that were served, names of lines, queue|lane

  local function begin()
    turns, names, at = {}, {}, w.q .. '|' .. w.lane
  end

  -- place puts a group where it belongs: the first is the last.
  local function place(gs, G)
    local lo, hi = 1, #gs
    while lo <= hi do
      local mid = floor((lo + hi) / 2)
      local o = gs[mid]
      if o.start > G.start or o.start == G.start and o.s >= G.s then lo = mid + 1 else hi = mid - 1 end
    end
    table.insert(gs, lo, G)
  end

  -- load reads some more lines of a group.
  local function load(G)
    local new = {}
    for _, f in ipairs(G.from) do
      if not f.done then
        local r = call('ZRANGE', P .. 'vl|' .. f.name .. '|' .. G.g, f.off, f.off + G.most - 1, 'WITHSCORES')
        for j = 1, #r, 2 do
          if not w.byline[r[j]] then
            local L = newline(r[j], openkey(w.q, w.lane, f.code, f.t.ty), f.t, tonumber(r[j + 1]), f.cl)
            new[#new + 1], w.byline[r[j]] = L, L
          end
        end
        f.off, f.done = f.off + #r / 2, #r < 2 * G.most
      end
    end
    if limited then LM.prepare(new, w.n) end
    for i = 1, #new do
      new[i].g = G.g
      insert(G.ls, new[i])
    end
    return #new > 0
  end

  local function group(gs, g, most)
    local G = gs.by[g]
    if not G then
      G = {g = g, start = LM.fairstart(at, g), s = math.huge, ls = {}, from = {}, most = most}
      gs.by[g] = G
    end
    return G
  end

  local function find(gs, t, code, cl)
    local name = w.q .. '|' .. w.lane .. code .. '|' .. t.ty
    names[name] = true
    if limited and call('HEXISTS', P .. 'vb', name) == 1 then w.building = true end
    if w.lane == 'k' then
      local more, next = LM.fairdue(name, w.q)
      if more then w.building = true end
      if next then soon(next - run) end
    end
    local some = LM.fairgroups(name, at, w.n + 15)
    if #some == w.n + 15 then w.cut = true end
    for i = 1, #some do
      local G = group(gs, some[i], max(8, ceil(2 * w.n / #some)))
      G.from[#G.from + 1] = {name = name, t = t, code = code, cl = cl, off = 0}
      gs.new[G] = true
    end
  end

  local function open(cl)
    local gs = {by = {}, new = {}}
    for _, t in ipairs(w.types) do
      find(gs, t, cl, cl)
      if cl == 2 and w.holders then find(gs, t, 6, cl) end
    end
    local heads = {}
    for G in pairs(gs.new) do
      if load(G) then
        G.s = G.ls[#G.ls].s
        place(gs, G)
      end
    end
    for i = 1, #gs do heads[i] = gs[i].ls[#gs[i].ls] end
    prefill(heads)
    return gs
  end

  -- front is the line with the first command of the group that is served next.
  local function first(gs)
    while gs do
      local k = #gs
      local G = gs[k]
      if not G then return nil end
      w.width = k
      local L = front(G.ls)
      if not L then
        if not load(G) then gs[k] = nil end
      else
        local s, st = tonumber(L.sc[L.i] or L.s), LM.fairstart(at, G.g)
        if s == G.s and st == G.start then return L end
        G.s, G.start, gs[k] = s, st, nil
        place(gs, G)
        if gs[k] == G then return L end
      end
    end
  end

  local function add(gs, L)
    L.g = L.g or string.match(LM.about(sub(L.line, 1, 16)).raw, '^[^ ]* [^ ]* ([^ ]*)') or ''
    local G = group(gs, L.g, 8)
    insert(G.ls, L)
    for i = 1, #gs do
      if gs[i] == G then
        table.remove(gs, i)
        break
      end
    end
    G.s, G.start = G.ls[#G.ls].s, LM.fairstart(at, G.g)
    place(gs, G)
  end

  local function drop(gs, L) remove(gs.by[L.g].ls, L) end

  local function except(gs, t)
    for i = 1, #gs do
      gs[i].ls = without(gs[i].ls, t)
      for _, f in ipairs(gs[i].from) do f.done = f.done or f.t == t end
    end
    return gs
  end

  local function served(L)
    LM.fairserved(w.q, w.lane, L.g)
    if not turns[L.g] then turns[L.g], turns[#turns + 1] = true, L.g end
  end

  -- write keeps the turns, once the lines are where they belong.
  local function write()
    if #turns > 0 then LM.fairwrite(at, turns, names) end
  end

  FAIRLY = {begin = begin, open = open, front = first, insert = add, remove = drop, without = except, served = served, write = write}
  return FAIRLY
end
