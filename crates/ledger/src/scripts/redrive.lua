-- Gives a dead letter another life: from the dead stream to the retry zset, under a new header. A body that the source keeps
-- beside its elements goes back to where it was.
--
-- KEYS 1 dead stream, 2 retry zset, and with a body: 3 its key, 4 the hash of lives
-- ARGV 1 stream id, 2 the new member, 3 the time of its next attempt (ms), or '' for now, and with a body: 4 's' for a string,
--      else it is in a hash, 5 its field there, 6 the body
-- Returns 1 when it was moved, 0 when the dead letter was not there, when its very like waits already (the same bytes
--      died twice), or when there is another body by now: the two would become one.
--
-- Sent twice: the second run finds no dead letter; the first has taken it out of the stream for good. It takes back a body
-- only if it has written it itself.

local bad = wrong_type('stream', 'zset', ARGV[4] == 's' and 'string' or ARGV[4] and 'hash' or nil,
  ARGV[4] and 'hash' or nil)
if bad then return bad end
local now = clock()
open(KEYS[2])
if redis.call('ZSCORE', KEYS[2], ARGV[2]) then return 0 end
local written
if ARGV[4] == 's' then
  written = redis.call('SET', KEYS[3], ARGV[6], 'NX')
  if not written and redis.call('GET', KEYS[3]) ~= ARGV[6] then return 0 end
elseif ARGV[4] then
  written = redis.call('HSETNX', KEYS[3], ARGV[5], ARGV[6]) == 1
  if not written and redis.call('HGET', KEYS[3], ARGV[5]) ~= ARGV[6] then return 0 end
end
if redis.call('XDEL', KEYS[1], ARGV[1]) == 0 then
  if written and ARGV[4] == 's' then redis.call('UNLINK', KEYS[3]) end
  if written and ARGV[4] ~= 's' then redis.call('HDEL', KEYS[3], ARGV[5]) end
  return 0
end
redis.call('ZADD', KEYS[2], ARGV[3] == '' and now or ARGV[3], ARGV[2])
if ARGV[4] then redis.call('HINCRBY', KEYS[4], 'n' .. string.sub(ARGV[2], struct.unpack('<I2', ARGV[2], 3) + 1), 1) end
return 1
