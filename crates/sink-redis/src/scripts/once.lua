-- Writes an element, unless an earlier attempt has: that is told by a mark, a key with a lifetime in the slot of the destination.
--
-- KEYS  the destination, the mark
-- ARGV  the earlier attempt that may have written it ('' for none, '*' for any), this attempt, the lifetime in ms,
--       the command and its arguments behind the key
--
-- Answers what the command answers, or the status THERE: it was written before. A second call with the same arguments
-- writes again if the first argument is '': then no attempt was made before.
--
-- The write goes first: without it there is no mark, and what is refused is not taken for written.
local suspect = ARGV[1]
if suspect ~= '' then
  local left = redis.pcall('GET', KEYS[2])
  if type(left) == 'string' and (suspect == '*' or suspect == left) then return redis.status_reply('THERE') end
end
local answer = redis.pcall(ARGV[4], KEYS[1], unpack(ARGV, 5))
if type(answer) == 'table' and answer.err then return answer end
redis.pcall('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return answer
