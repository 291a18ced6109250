-- Removes one entry that waits for a retry; one in flight is left to its owner.
--
-- KEYS 1 retry zset
-- ARGV 1 the exact member
-- Returns 1 when it was removed, 0 when it was not there.
--
-- Sent twice: the second run finds nothing, and no member comes back under its old name.

local bad = wrong_type('zset')
if bad then return bad end
return redis.call('ZREM', KEYS[1], ARGV[1])
