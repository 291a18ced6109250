-- Gives a lease that ends too late a full lease from now. A daemon that holds it extends it as ever.
--
-- KEYS 1 leases zset
-- ARGV 1 '1' to repair, 2 name of the claim, 3 how late a lease may end (ms from now), 4 the lease (ms)
-- Returns 1 if it ends later, else 0.
--
-- Sent twice: the second run finds a lease that ends soon enough.

local bad = wrong_type('zset')
if bad then return bad end
local now, ends = (clock()), redis.call('ZSCORE', KEYS[1], ARGV[2])
if not ends or tonumber(ends) <= now + tonumber(ARGV[3]) then return 0 end
if ARGV[1] == '1' then
  open(KEYS[1])
  redis.call('ZADD', KEYS[1], 'XX', ms(now + tonumber(ARGV[4])), ARGV[2])
end
return 1
