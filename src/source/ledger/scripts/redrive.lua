-- Gives a dead letter another life: from the dead stream to the retry zset, due now, under a new header. A body that the
-- source keeps beside its elements goes back to where it was.
--
-- KEYS 1 dead stream, 2 retry zset, 3 the key of the body if there is one
-- ARGV 1 stream id, 2 the new member, and with a body: 3 's' for a string, else it is in a hash, 4 its field there, 5 the body
-- Returns 1 when it was moved, 0 when the dead letter was not there, when its very like waits already (the same bytes
--      died twice), or when there is another body by now: the two would become one.
--
-- Sent twice: the second run finds no dead letter; the first has taken it out of the stream for good. It takes back a body
-- only if it has written it itself.

local bad = wrong_type('stream', 'zset', ARGV[3] == 's' and 'string' or ARGV[3] and 'hash' or nil)
if bad then return bad end
local now = clock()
open(KEYS[2])
if redis.call('ZSCORE', KEYS[2], ARGV[2]) then return 0 end
local written
if ARGV[3] == 's' then
  written = redis.call('SET', KEYS[3], ARGV[5], 'NX')
  if not written and redis.call('GET', KEYS[3]) ~= ARGV[5] then return 0 end
elseif ARGV[3] then
  written = redis.call('HSETNX', KEYS[3], ARGV[4], ARGV[5]) == 1
  if not written and redis.call('HGET', KEYS[3], ARGV[4]) ~= ARGV[5] then return 0 end
end
if redis.call('XDEL', KEYS[1], ARGV[1]) == 0 then
  if written and ARGV[3] == 's' then redis.call('UNLINK', KEYS[3]) end
  if written and ARGV[3] ~= 's' then redis.call('HDEL', KEYS[3], ARGV[4]) end
  return 0
end
redis.call('ZADD', KEYS[2], now, ARGV[2])
return 1
