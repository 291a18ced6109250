-- Offers one element exactly as Redisson does, the announcement on the channel included.
--
-- KEYS 1 Z zset, 2 L list
-- ARGV 1 element, 2 delay (ms), 3 channel
-- Returns {'offered' or 'already', due time (ms)}.
--
-- Sent twice: while the element is in Z the second run finds it there and changes nothing. Once it has been claimed
-- or transferred, nothing here shows that it was ever offered: it is offered, and delivered, once more, and L may hold two
-- copies for a while. To avoid that, send it again only before it is due.

local bad = wrong_type('zset', 'list')
if bad then return bad end
local now = clock()
local standing = redis.call('ZSCORE', KEYS[1], ARGV[1])
if standing then return {'already', tonumber(standing)} end
local due = now + tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], due, ARGV[1])
redis.call('RPUSH', KEYS[2], ARGV[1])
-- Redisson reads the head and compares; a large one is not read here.
if redis.call('ZRANK', KEYS[1], ARGV[1]) == 0 then
  redis.call('PUBLISH', ARGV[3], due)
end
return {'offered', due}
