#!lua flags=allow-oom
-- maintain.lua: bounded maintenance of the whole namespace.
-- KEYS  the guard pair
-- reply maintenance
-- include: base rate holds lib lim sweep maintenance
local err = begin(true)
if err then return err end
return maintain()
