-- Gives an element that waits another time: at which it falls due, or is tried again.
--
-- KEYS 1 the sorted set that it is in, 2 the key of its body, where the body says the time too
-- ARGV 1 the exact member, 2 the score that it was seen with, 3 the new score, 4 a channel, 5 what is announced there should it be the
--      first now, and with a body: 6 's' for a string, else it is in a hash, 7 its field there, 8 SHA-1 of the body, 9 the new body
-- Returns y done, a it has that score already, n it is not there, c it has another score, b it has another body. Only y has
--      changed something.
--
-- Sent twice: the second run finds the new score, and answers a.

local bad = wrong_type('zset', ARGV[6] == 's' and 'string' or ARGV[6] and 'hash' or nil)
if bad then return bad end
local Z, member, new = KEYS[1], ARGV[1], tonumber(ARGV[3])
local score = redis.call('ZSCORE', Z, member)
if not score then return 'n' end
if tonumber(score) == new then return 'a' end
if tonumber(score) ~= tonumber(ARGV[2]) then return 'c' end
if ARGV[6] then
  local body
  if ARGV[6] == 's' then body = redis.call('GET', KEYS[2]) else body = redis.call('HGET', KEYS[2], ARGV[7]) end
  if not body or redis.sha1hex(body) ~= ARGV[8] then return 'b' end
end
open(Z)
if ARGV[6] == 's' then
  redis.call('SET', KEYS[2], ARGV[9], 'KEEPTTL')
elseif ARGV[6] then
  redis.call('HSET', KEYS[2], ARGV[7], ARGV[9])
end
redis.call('ZADD', Z, 'XX', ARGV[3], member)
-- Whoever waits for the first waits for another one now. A right to publish that is missing must not hide what was written:
-- daemons look by themselves too, only later.
if redis.call('ZCOUNT', Z, '-inf', '(' .. ARGV[3]) == 0 then redis.pcall('PUBLISH', ARGV[4], ARGV[5]) end
return 'y'
