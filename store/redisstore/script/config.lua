#!lua flags=no-writes
-- config.lua: reads the configuration.
-- KEYS  the guard pair
-- reply {version, JSON or nil}
-- include: base
local err = begin(false, true)
if err then return err end
return {cv, call('HGET', P .. 'cfg', '') or ''}
