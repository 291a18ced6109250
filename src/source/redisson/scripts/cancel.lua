-- Removes one element that is scheduled or waits for a retry; one in flight is left to its owner.
--
-- KEYS 1 Z zset, 2 L list, 3 retry zset
-- ARGV 1 'scheduled' or 'retry', 2 the exact member
-- Returns 1 when it was removed, 0 when it was not there.
--
-- Sent twice: the second run finds nothing, unless the very same bytes were offered again in between.

local bad = wrong_type('zset', 'list', 'zset')
if bad then return bad end
if ARGV[1] == 'retry' then return redis.call('ZREM', KEYS[3], ARGV[2]) end
if redis.call('ZREM', KEYS[1], ARGV[2]) == 0 then return 0 end
redis.call('LREM', KEYS[2], 1, ARGV[2])
return 1
