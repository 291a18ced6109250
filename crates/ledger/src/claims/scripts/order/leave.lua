-- Gives the order back: another daemon need not wait for the end of the lease. Only for one that has nothing in flight.
--
-- KEYS 1 state hash
-- ARGV 1 owner, in hexadecimal digits, 2 the latest end (ms) that the order may have: the time of sending and a lease
-- Returns 1 if it was the caller's, else 0.
--
-- Held up on its way it does nothing once the caller has claimed again: the order ends later then. Sent twice: it is over
-- already. Names of the caller's empty claims may be there for a while, so its name stays: without one, the next daemon would
-- wait for them.

local state = typed(KEYS[1], 'HMGET', KEYS[1], 'order_owner', 'order_until')
if bad then return bad end
if state[1] ~= ARGV[1] or (tonumber(state[2] or '') or 0) > tonumber(ARGV[2]) then return 0 end
call('HDEL', KEYS[1], '')
call('HSET', KEYS[1], 'order_until', '0')
return 1
