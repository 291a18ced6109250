-- Gives a dead letter another life: from the dead stream to the retry zset, due now, under a new header.
--
-- KEYS 1 dead stream, 2 retry zset
-- ARGV 1 stream id, 2 the new member
-- Returns 1 when it was moved, 0 when the dead letter was not there, or when its very like waits already (the same bytes
--      died twice): the two would become one.
--
-- Sent twice: the second run finds no dead letter; the first has taken it out of the stream for good.

local bad = wrong_type('stream', 'zset')
if bad then return bad end
local now = clock()
open(KEYS[2])
if redis.call('ZSCORE', KEYS[2], ARGV[2]) then return 0 end
if redis.call('XDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('ZADD', KEYS[2], now, ARGV[2])
return 1
