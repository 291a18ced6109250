-- Puts a header in front of a member that has none.
--
-- KEYS 1 retry zset
-- ARGV 1 '1' to repair, 2 the member, 3 the same behind a header
-- Returns 1 if the member is there, else 0.
--
-- Sent twice: the second run does not find the member.

local bad = wrong_type('zset')
if bad then return bad end
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not score then return 0 end
if ARGV[1] == '1' then
  open(KEYS[1])
  -- The addition comes first: one that is refused leaves the member.
  redis.call('ZADD', KEYS[1], score, ARGV[3])
  redis.call('ZREM', KEYS[1], ARGV[2])
end
return 1
