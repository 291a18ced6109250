-- Pauses, resumes or removes a recurring job.
--
-- ARGV 1 name of the topic, 2 name, 3 'p' pause, 'r' resume, 'd' remove, 4 to resume: the revision that was read, 5 its next
--      firing (ms), 6 '1' to drop a firing that is due
-- Returns {letter, now}: y done, s it was so already, n there is none, u another version wrote it and only remove is possible,
--      c it was changed after it was read, f a firing is due, and has to be fired first; only y has changed something.
--
-- Repeated: it is as wanted, and the second run returns s, or n after remove. Firings during the pause are not made up for.

--#include types.lua
--#include recurring.lua
--#include wake.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local name, what, head = ARGV[2], ARGV[3], definition(ARGV[2])
if head == nil then return {'n', now} end
-- What another version wrote cannot be fired here, and is removed all the same.
if what ~= 'r' and head and head.paused == 0 and is_due(call('ZSCORE', FIRINGS, name), now) and ARGV[6] ~= '1' then
  return {'f', now}
end
if what == 'd' then
  call('ZREM', FIRINGS, name)
  call('HDEL', RECURRING, name, '=' .. name)
  if call('HLEN', RECURRING) == 0 then call('HDEL', TOPIC, 'recurring') end
  return {'y', now}
end
if not head then return {'u', now} end
local paused = what == 'p' and 1 or 0
if head.paused == paused then return {'s', now} end
if paused == 0 and head.revision ~= tonumber(ARGV[4]) then return {'c', now} end
-- A full Redis refuses additions until a script has removed something, even nothing. This one only moves what is there.
call('ZREM', FIRINGS, name)
if paused == 0 then call('ZADD', FIRINGS, ARGV[5], name) end
call('HSET', RECURRING, name, struct.pack('<BI8B', 1, head.revision, paused) .. head.tail)
wake(ARGV[1])
return {'y', now}
