-- Puts what delaybridge holds back into the set, with the scores that its members had. For leaving: it does nothing while a
-- daemon is at work on the queue.
--
-- KEYS 1 leases zset, 2 retry zset, 3 dead stream, 4 the set, 5 the ledger's state hash
-- ARGV four for each: 't' or 'd' (retry, dead), the exact member (dead: the stream id), the score, the bytes to put there
-- Returns {'work', unexpired leases, 1 during forwarding of dead letters}: a daemon is at work; {'done', letters}: y moved,
--      n not there any more, t left because the same member is in the set already.
--
-- Sent twice: the second run finds the members gone and answers n. With nothing to move it only looks, and writes nothing.

local bad = wrong_type('zset', 'zset', 'stream', 'zset', 'hash')
if bad then return bad end
local LEASES, RETRY, DEAD, Z = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now = clock()
local forward = redis.call('HMGET', KEYS[5], 'forwards_until', 'forwards_returned')
local leases = redis.call('ZCOUNT', LEASES, '(' .. now, '+inf')
local forwards = forward[2] ~= '1' and (tonumber(forward[1]) or 0) > now
if leases > 0 or forwards then return {'work', leases, forwards and 1 or 0} end
if #ARGV == 0 then return {'done', ''} end
open(RETRY)
-- Removes nothing, and shows that the user may: a letter that stayed would be returned at every run.
redis.call('XDEL', DEAD, '0-0')

local letters = {}
for i = 1, #ARGV, 4 do
  local place, name, bytes = ARGV[i], ARGV[i + 1], ARGV[i + 3]
  local there
  if place == 'd' then there = redis.call('XRANGE', DEAD, name, name)[1] else there = redis.call('ZSCORE', RETRY, name) end
  if not there then
    letters[#letters + 1] = 'n'
  elseif redis.call('ZADD', Z, 'NX', ARGV[i + 2], bytes) == 0 then
    letters[#letters + 1] = 't'
  else
    -- The addition came first: one that is refused leaves the element where it was.
    if place == 'd' then redis.call('XDEL', DEAD, name) else redis.call('ZREM', RETRY, name) end
    letters[#letters + 1] = 'y'
  end
end
return {'done', table.concat(letters)}
