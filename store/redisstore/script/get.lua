#!lua flags=no-writes
-- get.lua: reads commands.
-- KEYS  the guard pair
-- ARGV  no blobs (0, 1), ids
-- reply {{wall, run, lease, config version}, then what read.lua says}
-- include: base read
local err = begin(false, true)
if err then return err end
local ids = {}
for i = 2, #ARGV do ids[i - 1] = ARGV[i] end
return {{wall, run, lease, cv}, read(ids, ARGV[1] == '1')}
