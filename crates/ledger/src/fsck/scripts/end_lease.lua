-- Removes the lease of a claim that holds nothing, and that can run no more: its lease is over for so long.
--
-- KEYS 1 leases zset, 2 d and 3 h zset of the claim
-- ARGV 1 '1' to repair, 2 name of the claim, 3 how long its lease must be over (ms)
-- Returns 1 if it is such a lease, else 0.
--
-- Sent twice: the second run finds no lease.

local bad = wrong_type('zset', 'zset', 'zset')
if bad then return bad end
local ends = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not ends or tonumber(ends) + tonumber(ARGV[3]) >= (clock()) or redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then
  return 0
end
if ARGV[1] == '1' then redis.call('ZREM', KEYS[1], ARGV[2]) end
return 1
