-- Adds an element to the list that is scheduled and not there.
--
-- KEYS 1 Z zset, 2 L list
-- ARGV 1 '1' to repair, 2 the element, 3 how many entries may be searched
-- Returns 1 if it is in Z and not in L, else 0; also where L is longer.
--
-- Sent twice: the second run finds it in L.

local bad = wrong_type('zset', 'list')
if bad then return bad end
local Z, L, element = KEYS[1], KEYS[2], ARGV[2]
if not redis.call('ZSCORE', Z, element) or redis.call('LLEN', L) > tonumber(ARGV[3]) then return 0 end
-- A new one is at the end.
if redis.call('LPOS', L, element, 'RANK', -1) then return 0 end
if ARGV[1] == '1' then
  open(Z)
  redis.call('RPUSH', L, element)
end
return 1
