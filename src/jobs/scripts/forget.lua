-- Forgets a topic in which nothing is: no job, no id that is remembered, no limit and no pause.
--
-- Returns {now, 1 if it is forgotten}.
--
-- Sent twice: it is gone, and the second run answers 0. A job that is added afterwards enters the topic in the index again.

local now = clock()
local fields = typed(TOPIC, 'HLEN')
local created = typed(TOPIC, 'HEXISTS', 'created')
if bad then return bad end
for i = 1, 7 do
  if call('EXISTS', KEYS[i]) == 1 then return {now, 0} end
end
if fields ~= 1 or created ~= 1 then return {now, 0} end
call('HDEL', TOPIC, 'created')
return {now, 1}
