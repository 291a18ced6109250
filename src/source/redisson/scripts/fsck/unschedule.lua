-- Removes a scheduled element of which another copy is held, as an operator's cancel does.
--
-- KEYS 1 Z zset, 2 L list, 3 ghosts set, 4 sweep hash, 5 the zset with the copy that stays
-- ARGV 1 '1' to repair, 2 the element, 3 list cleanup ('auto' or 'exact'), 4 the member that stays
-- Returns 1 if both are there, else 0.
--
-- Sent twice: the second run finds one copy.

local kept = redis.call('TYPE', KEYS[5]).ok
if kept ~= 'zset' or not redis.call('ZSCORE', KEYS[5], ARGV[4]) then return 0 end
if ARGV[1] ~= '1' then return redis.call('ZSCORE', KEYS[1], ARGV[2]) and 1 or 0 end
-- The arguments of the script below.
local ARGV = {ARGV[2], ARGV[3]}
--#include cancel.lua
