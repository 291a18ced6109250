-- Removes one of two copies of an element, if the other one is there.
--
-- KEYS 1 the zset with the copy that stays, 2 where the other one is
-- ARGV 1 '1' to repair, 2 the member that stays, 3 'x' if the other one is in a stream, else 'z', 4 its member, or its id in
--      the stream
-- Returns 1 if both are there, else 0.
--
-- Sent twice: the second run finds one copy.

local stream = ARGV[3] == 'x'
local bad = wrong_type('zset', stream and 'stream' or 'zset')
if bad then return bad end
if not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
if stream then
  if not redis.call('XRANGE', KEYS[2], ARGV[4], ARGV[4])[1] then return 0 end
  if ARGV[1] == '1' then redis.call('XDEL', KEYS[2], ARGV[4]) end
  return 1
end
if KEYS[1] == KEYS[2] and ARGV[2] == ARGV[4] or not redis.call('ZSCORE', KEYS[2], ARGV[4]) then return 0 end
if ARGV[1] == '1' then redis.call('ZREM', KEYS[2], ARGV[4]) end
return 1
