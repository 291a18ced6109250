-- Removes one element that is scheduled; one in flight is left to its owner.
--
-- KEYS 1 Z zset, 2 L list
-- ARGV 1 the exact element
-- Returns 1 when it was removed, 0 when it was not there.
--
-- Sent twice: the second run finds nothing, unless the very same bytes were offered again in between.

local bad = wrong_type('zset', 'list')
if bad then return bad end
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('LREM', KEYS[2], 1, ARGV[1])
return 1
