-- Adds a recurring job, or changes it.
--
-- ARGV 1 name of the topic, 2 name, 3 its definition without the head, 4 its body, 5 its next firing (ms), 6 maximum number
--      of recurring jobs of a topic, 7 a random number: the revision, if this changes anything, 8 '1' to drop a firing that is due
-- Returns {letter, now, next firing or '' while it is paused, 1 if the topic is new}: y added, c changed, s it was so already;
--      or, with nothing changed, {'l', now, limit} there are too many, {'u', now} another version wrote the one of this name,
--      {'f', now} a firing of the old definition is due, and has to be fired first.
--
-- Repeated: it is as wanted, keeps its next firing, and the second run returns s.

--#include types.lua
--#include recurring.lua
--#include wake.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local name, head = ARGV[2], definition(ARGV[2])
if head == false then return {'u', now} end
local next_ms = call('ZSCORE', FIRINGS, name)
local paused = head and head.paused or 0
if head and head.tail == ARGV[3] and call('HGET', RECURRING, '=' .. name) == ARGV[4] and (next_ms or paused == 1) then
  return {'s', now, next_ms or '', 0}
end
if head and paused == 0 and is_due(next_ms, now) and ARGV[8] ~= '1' then return {'f', now} end
local most = tonumber(ARGV[6])
if not head and call('HLEN', RECURRING) / 2 >= most then return {'l', now, most} end

local new = call('HEXISTS', TOPIC, 'created') == 0
if new then call('HSET', TOPIC, 'created', ms(now)) end
call('HSET', TOPIC, 'recurring', '1')
if paused == 0 then call('ZADD', FIRINGS, ARGV[5], name) end
-- A decision about the old definition does not fit the new one.
call('HSET', RECURRING, name, struct.pack('<BI8B', 1, tonumber(ARGV[7]), paused) .. ARGV[3], '=' .. name, ARGV[4])
-- The daemons look at the topic.
wake(ARGV[1])
return {head and 'c' or 'y', now, paused == 0 and ARGV[5] or '', new and 1 or 0}
