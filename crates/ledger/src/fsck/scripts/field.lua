-- Replaces the value of a field of a hash, if it still is what was read.
--
-- KEYS 1 the hash
-- ARGV 1 '1' to repair, 2 the field, 3 its value as it was read, 4 the value that it gets
-- Returns 1 if it is that value, else 0.
--
-- Sent twice: the second run finds the new value.

local bad = wrong_type('hash')
if bad then return bad end
if redis.call('HMGET', KEYS[1], ARGV[2])[1] ~= ARGV[3] then return 0 end
if ARGV[1] == '1' then
  -- Removes nothing: a full Redis refuses a script if its first write may need memory.
  redis.call('HDEL', KEYS[1], '')
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
end
return 1
