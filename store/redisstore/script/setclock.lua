#!lua flags=allow-oom
-- setclock.lua: lets a test own the server time of the namespace.
-- KEYS  the guard pair
-- ARGV  the time in ms; 0 gives the real clock back
-- reply 1
-- include: base
local err = begin(false)
if err then return err end
if ARGV[1] == '0' then
  call('HDEL', KEYS[1], 'clk')
elseif call('HSET', KEYS[1], 'clk', ARGV[1]) == 1 and call('EXISTS', P .. 'lr', P .. 'W') == 0 then
  call('HSET', KEYS[1], 'last', ARGV[1], 'run', ARGV[1], 'lease', ARGV[1]) -- nothing has happened yet: the namespace begins now
end
return 1
