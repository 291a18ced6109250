-- Whether a member is in a sorted set. Changes nothing: for what is reported and kept.
--
-- KEYS 1 the zset
-- ARGV 1 ignored, 2 the member
-- Returns 1 if it is there, else 0.
--
-- Sent twice: it reads again.

local bad = wrong_type('zset')
if bad then return bad end
return redis.call('ZSCORE', KEYS[1], ARGV[2]) and 1 or 0
