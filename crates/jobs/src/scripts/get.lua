-- Returns one job. Read-only.
--
-- ARGV 1 id
-- Returns {now, '?'} if there is no such job, or it waits past its time to live, {now, 'g'} if it was finished recently, else {now, letter, time, record,
--      state or ''}: w it waits until that time, r it is reserved until then, d it died then, f a queue delivers it (no
--      time).

--#include types.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local id = ARGV[1]
local record = call('HGET', RECORDS, id)
if not record then
  local known = call('ZSCORE', GONE, id)
  return {now, known and tonumber(known) > now and 'g' or '?'}
end
local letter, time = 'w', call('ZSCORE', DUE, id)
local ends = time and call('ZSCORE', EXPIRY, id)
if ends and tonumber(ends) <= now then return {now, '?'} end
if not time then letter, time = 'r', call('ZSCORE', RESERVED, id) end
if not time then letter, time = 'd', call('ZSCORE', DEAD, id) end
-- A record that is in no set: a queue of the configuration delivers the job.
if not time then letter, time = 'f', '' end
return {now, letter, time, record, call('HGET', STATE, id) or ''}
