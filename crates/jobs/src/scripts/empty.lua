-- Removes waiting jobs for good, those that are due first before the others.
--
-- ARGV 1 maximum number of jobs
-- Returns {now, number of removed jobs, number of jobs that still wait}.
--
-- Repeated: the second run removes the next ones, as a second call should, because the caller limits and counts them. Ids
-- are not remembered, as in delete.lua.

--#include types.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local ids, count = call('ZRANGE', DUE, 0, tonumber(ARGV[1]) - 1), 0
if ids[1] then
  count = call('HDEL', RECORDS, unpack(ids))
  call('HDEL', STATE, unpack(ids))
  call('ZREM', EXPIRY, unpack(ids))
  call('ZREM', DUE, unpack(ids))
  if call('HEXISTS', TOPIC, 'urgent') == 1 then call('ZREM', URGENT, unpack(ids)) end
end
return {now, count, call('ZCARD', DUE)}
