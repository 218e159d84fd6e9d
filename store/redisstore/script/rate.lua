-- rate.lua: token buckets and throttled rates, as package rule has them.

local GRAIN = 0.0005 -- ms: more than a float64 of today's milliseconds can be off by

-- take takes up to n tokens from a bucket: the bucket, how many, and how long until the next in ms. limit 0 is no rate. The bucket is kept
-- also when there was no token: what an older rate had put far ahead was cut back.
local function take(b, limit, burst, n)
  if limit <= 0 then return b, n, 0 end
  local step = 1000 / limit
  burst = max(1, burst)
  local ahead = min(max(b - run, 0), burst * step)
  local got = min(n, floor((burst * step - ahead + GRAIN) / step))
  ahead = ahead + got * step
  local w = 0
  if got < n then w = ceil(ahead - (burst - 1) * step) end
  return run + ahead, got, w
end

-- force takes one token without waiting for it.
local function force(b, limit, burst)
  if limit <= 0 then return b end
  local step = 1000 / limit
  return min(max(b, run) + step, run + max(1, burst) * step)
end

-- throttle unpacks the state of a throttled rate; nil is none.
local function throttle(s)
  if not s then return {rate = 0, ceil = 0, at = 0, halved = 0, bucket = 0} end
  local t = {}
  t.rate, t.ceil, t.at, t.halved, t.bucket = sunpack('<ddddd', s)
  return t
end

local function packthrottle(t) return spack('<ddddd', t.rate, t.ceil, t.at, t.halved, t.bucket) end

local function throttlenow(t)
  local s, r = floor(max(0, run - t.at) / 1000), t.rate
  while s > 0 and r < t.ceil do
    r, s = min(r * 2, t.ceil), s - 1
  end
  return r * math.pow(1.1, min(s, 200))
end

local function throttlegone(t) return t.rate > 0 and throttlenow(t) >= 8 * t.ceil end

-- throttled lowers the rate after an answer that the far side is overloaded.
local function throttled(t, observed, limit)
  local base = observed
  if limit > 0 and (base <= 0 or limit < base) then base = limit end
  local top = t.ceil -- throttles in a row lower the rate again and again; the way back goes by where the row began
  if t.rate > 0 then
    base = throttlenow(t)
    if base > t.rate then top = 0 end
    if run - t.halved < 10000 then
      t.rate, t.at = base, run
      if top == 0 then t.ceil = max(base / 2, 0.1) end
      return t
    end
  end
  if base <= 0 then base = 1 end
  local half = max(base / 2, 0.1)
  return {rate = half, ceil = max(top, half), at = run, halved = run, bucket = t.bucket}
end
