-- Gives a claim that has keys and no lease a lease that is over, so that a daemon takes it over.
--
-- KEYS 1 leases zset, 2 d and 3 h zset of the claim
-- ARGV 1 '1' to repair, 2 name of the claim
-- Returns 1 if it had keys and no lease, else 0.
--
-- Sent twice: the second run finds the lease.

local bad = wrong_type('zset', 'zset', 'zset')
if bad then return bad end
if redis.call('ZSCORE', KEYS[1], ARGV[2]) or redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then return 0 end
if ARGV[1] == '1' then
  open(KEYS[1])
  redis.call('ZADD', KEYS[1], 'NX', ms((clock())), ARGV[2])
end
return 1
