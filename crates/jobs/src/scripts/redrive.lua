-- Makes dead jobs ready again with all of their tries: the oldest ones, or those with the given ids.
--
-- ARGV 1 name of the topic, 2 time to live from now on (ms, 0 is unlimited), or '' for the previous one, 3 maximum
--      number of jobs, 4 number of the oldest to skip, then ids
-- Returns {now, letters, more}: y ready now, n no such dead job, u unreadable for this version and unchanged. Without ids
--      there is a letter for each job that was looked at. `more` is 1 if 512 KiB of records ended it before it had looked at all:
--      call again for the rest, and skip those that stay.
--
-- Repeated: the jobs are not dead any more. Without ids the second run moves the next ones, as a second call should,
-- because the caller limits and counts them.

--#include types.lua
--#include state.lua
--#include moves.lua
--#include wake.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local ids, letters, moved, bytes_left, more = {}, {}, 0, 524288, 0
if ARGV[5] then
  for i = 5, #ARGV do ids[#ids + 1] = ARGV[i] end
else
  local first = tonumber(ARGV[4])
  ids = call('ZRANGE', DEAD, first, first + tonumber(ARGV[3]) - 1)
end
open()
for i = 1, #ids do
  local id, letter = ids[i], 'n'
  if call('ZSCORE', DEAD, id) then
    -- The record is read for its version and its time to live, which costs 5 ms per MB because of the body.
    local size = call('HSTRLEN', RECORDS, id)
    if i > 1 and size > bytes_left then
      more = 1
      break
    end
    bytes_left = bytes_left - size
    local record, text = call('HGET', RECORDS, id), call('HGET', STATE, id)
    if not record then
      forget(id)
      call('ZREM', DEAD, id)
    elseif not is_record(record) then
      letter = 'u'
    else
      -- If only the state is unreadable, it starts anew.
      local s, ttl = text and unpack_state(text) or fresh(record), tonumber(ARGV[2]) or 0
      local _, _, added, expires = struct.unpack('<BBI8I8', record)
      if ARGV[2] == '' and expires > 0 then ttl = expires - added end
      s.attempts, s.expires = 0, ttl > 0 and now + ttl or 0
      wait_until(id, now, s.priority)
      if s.expires > 0 then call('ZADD', EXPIRY, ms(s.expires), id) end
      call('HSET', STATE, id, pack_state(s))
      call('ZREM', DEAD, id)
      letter, moved = 'y', moved + 1
    end
  end
  letters[i] = letter
end
if moved > 0 then wake(ARGV[1]) end
return {now, table.concat(letters), more}
