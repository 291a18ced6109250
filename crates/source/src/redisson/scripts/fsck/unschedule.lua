-- Removes a scheduled element of which another copy is held, as an operator's cancel does.
--
-- KEYS 1 Z zset, 2 the zset with the copy that stays, 3 L list, 4 ghosts set, 5 sweep hash
-- ARGV 1 '1' to repair, 2 the element, 3 list cleanup ('auto' or 'exact'), 4 the member that stays
-- Returns 1 if both are there, else 0.
--
-- Sent twice: the second run finds one copy.

local halves, word, Z = 3, ARGV[3], KEYS[1]
--#include remove.lua
local bad = wrong_type('zset', 'zset', unpack(HALF_TYPES))
if bad then return bad end
if not redis.call('ZSCORE', KEYS[2], ARGV[4]) or not redis.call('ZSCORE', Z, ARGV[2]) then return 0 end
if ARGV[1] == '1' then
  open(Z)
  drop(ARGV[2])
  redis.call('ZREM', Z, ARGV[2])
end
return 1
