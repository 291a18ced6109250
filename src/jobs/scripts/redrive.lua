-- Dead jobs wait again, with all of their tries: the oldest ones, or those that are named.
--
-- ARGV 1 name of the topic, 2 time to live from now on (ms, 0 is for ever), or '' for what each had, 3 most jobs, then ids
-- Returns {now, letters}: y it is ready now, n there is no such dead job. Without ids only those that were moved are
--      answered. Fewer letters than ids, or than were asked for, after 512 KiB of records: call again for the rest.
--
-- Sent twice: the jobs are not dead any more. Without ids the second run moves the next ones, as a second call
-- should: the caller names how many, and reads how many there were.

--#include types.lua
--#include state.lua
--#include moves.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local ids, letters, moved, bytes_left = {}, {}, 0, 524288
if ARGV[4] then
  for i = 4, #ARGV do ids[#ids + 1] = ARGV[i] end
else
  ids = call('ZRANGE', DEAD, 0, tonumber(ARGV[3]) - 1)
end
open()
for i = 1, #ids do
  local id, letter = ids[i], 'n'
  if call('ZSCORE', DEAD, id) then
    local size, text = call('HSTRLEN', RECORDS, id), call('HGET', STATE, id)
    if size > 0 then
      local s, ttl = text and unpack_state(text), tonumber(ARGV[2]) or 0
      -- The record has the time to live, behind which is the body: 5 ms per MB to read.
      if not s or ARGV[2] == '' then
        if i > 1 and size > bytes_left then break end
        bytes_left = bytes_left - size
        local record = call('HGET', RECORDS, id)
        local _, _, added, expires = struct.unpack('<BBI8I8', record)
        s = s or fresh(record)
        if ARGV[2] == '' and expires > 0 then ttl = expires - added end
      end
      s.attempts, s.expires = 0, ttl > 0 and now + ttl or 0
      call('ZADD', DUE, ms(now), id)
      if s.expires > 0 then call('ZADD', EXPIRY, ms(s.expires), id) end
      call('HSET', STATE, id, pack_state(s))
      letter, moved = 'y', moved + 1
    else
      forget(id)
    end
    call('ZREM', DEAD, id)
  end
  letters[i] = letter
end
if moved > 0 then call('PUBLISH', 'delaybridge:jobs:wake', ARGV[1]) end
return {now, table.concat(letters)}
