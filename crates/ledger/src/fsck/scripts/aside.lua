-- Renames a key of ours that holds a value of another type: what it holds stays, under a name that nothing uses.
--
-- KEYS 1 the key, 2 the name aside
-- ARGV 1 '1' to repair, 2 the type that the key must have
-- Returns 1 if the key holds another type, else 0; also where there is something aside already, which is not replaced.
--
-- Sent twice: the second run finds no key.

local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' or kind == ARGV[2] then return 0 end
if ARGV[1] ~= '1' then return 1 end
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
redis.call('RENAME', KEYS[1], KEYS[2])
return 1
