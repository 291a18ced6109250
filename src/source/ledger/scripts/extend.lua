-- Moves the deadline of what is still the caller's.
--
-- KEYS 1 in-flight zset
-- ARGV 1 lease (ms), then members
-- Returns {now, answers}: a letter per member: y extended, n not the caller's any more.
--
-- Sent twice: a deadline moves twice; of what is not the caller's any more, none.

local bad = wrong_type('zset')
if bad then return bad end
local now = clock()
open(KEYS[1])
local deadline = now + tonumber(ARGV[1])
local answers = {}
for i = 2, #ARGV do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    redis.call('ZADD', KEYS[1], deadline, ARGV[i])
    answers[i - 1] = 'y'
  else
    answers[i - 1] = 'n'
  end
end
return {now, table.concat(answers)}
