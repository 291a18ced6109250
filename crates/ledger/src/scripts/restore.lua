-- Puts what delaybridge holds back into the source's sorted sets, with the scores that its members had. For leaving: it does
-- nothing while a daemon is at work on the queue.
--
-- KEYS 1 leases zset, 2 retry zset, 3 dead stream, 4 the ledger's state hash, then the sorted sets of the source, then the keys
--      of bodies
-- ARGV 1 how many sorted sets there are, 2 '1' if bodies are kept beside the elements, then eight for each element: 't' or 'd'
--      (retry, dead), the exact member (dead: the stream id), the score, the bytes to put there; and the body of a dead letter,
--      or four times '': 's' for a string, else it is in a hash, the place in KEYS of its key, its field there, the body
-- Returns {'work', unexpired leases, 1 during forwarding of dead letters}: a daemon is at work; {'done', letters}: y moved,
--      n not there any more, t left: the same member is in the set already, or there is another body for it.
--
-- With bodies elsewhere, two members with the same bytes are one job: where it is scheduled already, the second one goes.
--
-- Sent twice: the second run finds the members gone and answers n. With nothing to move it only looks, and writes nothing.

local sets, types = tonumber(ARGV[1]), {'zset', 'zset', 'stream', 'hash'}
for n = 1, sets do types[4 + n] = 'zset' end
local bad = wrong_type(unpack(types))
if bad then return bad end
local LEASES, RETRY, DEAD = KEYS[1], KEYS[2], KEYS[3]
local now = clock()
local forward = redis.call('HMGET', KEYS[4], 'forwards_until', 'forwards_returned')
local leases = redis.call('ZCOUNT', LEASES, '(' .. now, '+inf')
local forwards = forward[2] ~= '1' and (tonumber(forward[1]) or 0) > now
if leases > 0 or forwards then return {'work', leases, forwards and 1 or 0} end
if #ARGV == 2 then return {'done', ''} end
open(RETRY)
-- Removes nothing, and shows that the user may: a letter that stayed would be returned at every run.
redis.call('XDEL', DEAD, '0-0')

local function scheduled(member)
  for n = 1, sets do
    if redis.call('ZSCORE', KEYS[4 + n], member) then return true end
  end
end

-- Whether the body is there then. Another one stays, and so does a value of another type.
local function put_body(i)
  local key, field, body = KEYS[tonumber(ARGV[i + 1])], ARGV[i + 2], ARGV[i + 3]
  local kind = redis.call('TYPE', key).ok
  if ARGV[i] == 's' then
    if kind ~= 'string' and kind ~= 'none' then return false end
    return redis.call('SET', key, body, 'NX') and true or redis.call('GET', key) == body
  end
  if kind ~= 'hash' and kind ~= 'none' then return false end
  return redis.call('HSETNX', key, field, body) == 1 or redis.call('HGET', key, field) == body
end

local letters = {}
for i = 3, #ARGV, 8 do
  local place, name, bytes = ARGV[i], ARGV[i + 1], ARGV[i + 3]
  local there
  if place == 'd' then there = redis.call('XRANGE', DEAD, name, name)[1] else there = redis.call('ZSCORE', RETRY, name) end
  if not there then
    letters[#letters + 1] = 'n'
  elseif ARGV[i + 4] ~= '' and not put_body(i + 4) then
    letters[#letters + 1] = 't'
  elseif scheduled(bytes) and ARGV[2] ~= '1' then
    letters[#letters + 1] = 't'
  else
    -- The additions came first: one that is refused leaves the element where it was.
    if not scheduled(bytes) then redis.call('ZADD', KEYS[5], ARGV[i + 2], bytes) end
    if place == 'd' then redis.call('XDEL', DEAD, name) else redis.call('ZREM', RETRY, name) end
    letters[#letters + 1] = 'y'
  end
end
return {'done', table.concat(letters)}
