-- Forgets an empty topic: without jobs, remembered ids, limits and pause.
--
-- Returns {now, 1 if it was forgotten}.
--
-- Repeated: it is gone, and the second run returns 0. The next job enters the topic in the index again.

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
