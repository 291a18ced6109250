-- Removes a field of the sweep's state that is no number; says whether a turn was abandoned, which is continued by the sweep.
--
-- KEYS 1 sweep hash
-- ARGV 1 '1' to repair, 2 'field' or 'turn', 3 the field, 4 how long the lease of the sweeper must be over (ms)
-- Returns 1 if it is so, else 0.
--
-- Sent twice: the second run finds no such field.

local bad = wrong_type('hash')
if bad then return bad end
local state = redis.call('HMGET', KEYS[1], ARGV[3], 'until')
if not state[1] then return 0 end
if ARGV[2] == 'turn' then
  return (tonumber(state[2] or '') or 0) + tonumber(ARGV[4]) < (clock()) and 1 or 0
end
if tonumber(state[1]) then return 0 end
if ARGV[1] == '1' then redis.call('HDEL', KEYS[1], ARGV[3]) end
return 1
