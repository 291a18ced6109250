-- Lists jobs of one state, in the order of their times. Read-only.
--
-- ARGV 1 'delay', 'ready', 'reserved' or 'dead', 2 number to skip, 3 maximum number of jobs, 4 maximum size in bytes
-- Returns {now, {id, letter, time, record, state or '', ...}, 1 if there are more after these}, with letters and times as
--      in get.lua.

--#include types.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local key, letter = DUE, 'w'
if ARGV[1] == 'reserved' then key, letter = RESERVED, 'r'
elseif ARGV[1] == 'dead' then key, letter = DEAD, 'd' end

-- By rank if possible, because a range by score walks over the elements that it skips.
local skip, most = tonumber(ARGV[2]), call('ZCARD', key)
if ARGV[1] == 'ready' then most = call('ZCOUNT', DUE, '-inf', ms(now))
elseif ARGV[1] == 'delay' then skip = skip + call('ZCOUNT', DUE, '-inf', ms(now)) end
local rows = call('ZRANGE', key, skip, skip + tonumber(ARGV[3]) - 1, 'WITHSCORES')
local jobs, bytes = {}, tonumber(ARGV[4])
for i = 1, #rows, 2 do
  if ARGV[1] == 'ready' and tonumber(rows[i + 1]) > now then break end
  bytes = bytes - call('HSTRLEN', RECORDS, rows[i])
  if bytes < 0 and i > 1 then break end
  local n = #jobs
  jobs[n + 1], jobs[n + 2], jobs[n + 3] = rows[i], letter, rows[i + 1]
  jobs[n + 4], jobs[n + 5] = call('HGET', RECORDS, rows[i]) or '', call('HGET', STATE, rows[i]) or ''
end
return {now, jobs, skip + #jobs / 5 < most and 1 or 0}
