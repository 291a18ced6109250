-- Stores a dead letter that comes from outside: a line of an import.
--
-- KEYS 1 dead stream, 2 state hash
-- ARGV 1 the import (new for each), 2 the line's number, then fields and values
-- Returns 1 when it was stored, 0 when this line of this import was stored before.
--
-- Sent twice: the state has the last line of the import, and lines come in their order.

local bad = wrong_type('stream', 'hash')
if bad then return bad end
local last = redis.call('HGET', KEYS[2], 'import')
local run, line = string.match(last or '', '^(%d+) (%d+)$')
if run == ARGV[1] and tonumber(line) >= tonumber(ARGV[2]) then return 0 end
-- In this order: a right that is missing may store a letter twice, but never note one that is not there.
redis.call('XADD', KEYS[1], '*', unpack(ARGV, 3))
redis.call('HSET', KEYS[2], 'import', ARGV[1] .. ' ' .. ARGV[2])
return 1
