#!lua
-- submit.lua: adds commands; the only script that is refused when memory is full.
-- KEYS  the guard pair
-- ARGV  atomic (0, 1), then what intake.lua says
-- reply {codes, holders of unique keys}
-- include: base holds lib lim intake
local err = begin(false)
if err then return err end
local codes, say = submit(2, true, ARGV[1] == '1')
return {codes, say}
