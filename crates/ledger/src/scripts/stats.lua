-- What the gauges of a queue show. Reads only.
--
-- KEYS 1 leases zset, 2 retry zset, 3 dead stream, then those of the source
-- ARGV those of the source
-- Returns {now, leases, retry, dead, what the source adds}. The source's half defines SOURCE_TYPES and source_depths().
--
-- Sent twice: it reads again.

--#source keys
local bad = wrong_type('zset', 'zset', 'stream', unpack(SOURCE_TYPES))
if bad then return bad end
local now = clock()
--#source stats
return {now, redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2]), redis.call('XLEN', KEYS[3]), source_depths()}
