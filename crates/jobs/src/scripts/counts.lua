-- Counts the jobs of many topics of a server. Read-only, and without the prelude: its keys are not those of one topic.
--
-- KEYS the due, reserved and dead jobs of each topic in turn
-- Returns the number of members of each key, or -1 for a key of another type.

local counts = {}
for i = 1, #KEYS do
  local count = redis.pcall('ZCARD', KEYS[i])
  counts[i] = type(count) == 'number' and count or -1
end
return counts
