-- Puts what delaybridge holds back to where Redisson sees it: elements of Redisson into Z and L, payloads of the ready
-- list to its head. For leaving: it does nothing while a daemon is at work on the queue.
--
-- KEYS 1 leases zset, 2 retry zset, 3 dead stream, then Redisson's: 4 Z zset, 5 L list, 6 ready list, 7 ghosts set,
--      8 ghosts-turn set, 9 sweep hash; 10 the ledger's state hash,
--      11 free places of a bounded queue
-- ARGV 1 channel, 2 '1' if L may hold entries of the returned elements (a sweep has found orphans), then five for each:
--      't' or 'd' (retry, dead), the exact member (dead: the stream id), 'z' or 'l' (to Z and L, or to
--      the head of the ready list), the due time (ms; for 'l' it is not looked at), the bytes to put there
-- Returns {'work', unexpired leases, 1 during a sweep, 1 during forwarding of dead letters}: a daemon is at
--      work; {'ghosts', how many}: they must be swept before; {'done', letters}: y moved, n not there any more, t left
--      because the same bytes are scheduled already. Fewer letters than items when the search in L took long: send the rest.
--
-- Sent twice: the second run finds the members gone and answers n. With nothing to move it only looks, and writes nothing.

--#source keys
local bad = wrong_type('zset', 'zset', 'stream', 'zset', 'list', 'list', 'set', 'set', 'hash', 'hash', 'string')
if bad then return bad end
local LEASES, RETRY, DEAD = KEYS[1], KEYS[2], KEYS[3]
local now = clock()

local state = redis.call('HMGET', SWEEP, 'by', 'until')
local forward = redis.call('HMGET', KEYS[10], 'forwards_until', 'forwards_returned')
local leases = redis.call('ZCOUNT', LEASES, '(' .. now, '+inf')
-- The command line sweeps under an owner of zeros, which no daemon draws.
local sweeps = state[1] and state[1] ~= string.rep('\0', 8) and (tonumber(state[2]) or 0) > now
local forwards = forward[2] ~= '1' and (tonumber(forward[1]) or 0) > now
if leases > 0 or sweeps or forwards then return {'work', leases, sweeps and 1 or 0, forwards and 1 or 0} end
if #ARGV == 2 then return {'done', ''} end
local ghosts = redis.call('SCARD', GHOSTS) + redis.call('SCARD', TURN)
if ghosts > 0 then return {'ghosts', ghosts} end
open(Z)
open(RETRY)
-- Removes nothing, and shows that the user may: a letter that stayed would be returned at every run.
redis.call('XDEL', DEAD, '0-0')

-- Places that are no number are left alone, as by a claim. Adding nothing shows that the user may.
local permits = redis.call('GET', KEYS[11])
permits = permits and string.find(permits, '^%-?%d+$')
if permits then redis.call('INCRBY', KEYS[11], 0) end

local cost = ARGV[2] == '1' and redis.call('LLEN', L) * 0.036 or 0
local letters, spent, soonest = {}, 0, nil
for i = 3, #ARGV, 5 do
  local place, name, bytes = ARGV[i], ARGV[i + 1], ARGV[i + 4]
  -- Of the original element and of the returned one.
  local was = bytes
  local there
  if place == 'd' then
    local letter = redis.call('XRANGE', DEAD, name, name)[1]
    there = letter
    for f = 1, letter and #letter[2] or 0, 2 do
      if letter[2][f] == 'element' then was = letter[2][f + 1] end
    end
  else
    there = redis.call('ZSCORE', RETRY, name)
    was = string.sub(name, struct.unpack('<I2', name, 3) + 1)
  end
  if not there then
    letters[#letters + 1] = 'n'
  elseif ARGV[i + 2] == 'z' and redis.call('ZSCORE', Z, bytes) then
    letters[#letters + 1] = 't'
  else
    if ARGV[i + 2] == 'l' then
      redis.call('LPUSH', READY, bytes)
      -- The claim has returned its place.
      if permits then redis.call('INCRBY', KEYS[11], -1) end
    else
      if cost > 0 then
        -- 5 ms is what a script may hold Redis up; one element goes whatever it costs.
        if spent > 0 and spent + 2 * cost > 5000 then break end
        spent = spent + 2 * cost
        -- Unless they are scheduled as well: then the entry is theirs.
        if not redis.call('ZSCORE', Z, was) then redis.call('LREM', L, 0, was) end
        if was ~= bytes then redis.call('LREM', L, 0, bytes) end
      end
      -- Additions come first: one that is refused leaves the element where it was as well.
      redis.call('ZADD', Z, ARGV[i + 3], bytes)
      redis.call('RPUSH', L, bytes)
      local due = tonumber(ARGV[i + 3])
      if not soonest or due < soonest then soonest = due end
    end
    if place == 'd' then redis.call('XDEL', DEAD, name) else redis.call('ZREM', RETRY, name) end
    letters[#letters + 1] = 'y'
  end
end
-- Redisson's timers wait for the head that they know of.
if soonest and redis.call('ZCOUNT', Z, '-inf', string.format('(%.0f', soonest)) == 0 then
  redis.call('PUBLISH', ARGV[1], string.format('%.0f', soonest))
end
return {'done', table.concat(letters)}
