-- Dead jobs wait again, with all of their tries: the oldest ones, or those that are named.
--
-- ARGV 1 name of the topic, 2 time to live from now on (ms, 0 is for ever), or '' for what each had, 3 most jobs, 4 how many of
--      the oldest to pass over, then ids
-- Returns {now, letters}: y it is ready now, n there is no such dead job, u this version cannot read it, and it stays as it
--      is. Without ids, only those that were looked at are answered. Fewer letters than ids, or than were asked for, after
--      512 KiB of records: call again for the rest, and pass over what stays.
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
    -- The record is read for its version and its time to live: 5 ms per MB, because the body is behind them.
    local size = call('HSTRLEN', RECORDS, id)
    if i > 1 and size > bytes_left then break end
    bytes_left = bytes_left - size
    local record, text = call('HGET', RECORDS, id), call('HGET', STATE, id)
    if not record then
      forget(id)
      call('ZREM', DEAD, id)
    elseif not is_record(record) then
      letter = 'u'
    else
      -- One of which only the state cannot be read begins anew.
      local s, ttl = text and unpack_state(text) or fresh(record), tonumber(ARGV[2]) or 0
      local _, _, added, expires = struct.unpack('<BBI8I8', record)
      if ARGV[2] == '' and expires > 0 then ttl = expires - added end
      s.attempts, s.expires = 0, ttl > 0 and now + ttl or 0
      call('ZADD', DUE, ms(now), id)
      if s.expires > 0 then call('ZADD', EXPIRY, ms(s.expires), id) end
      call('HSET', STATE, id, pack_state(s))
      call('ZREM', DEAD, id)
      letter, moved = 'y', moved + 1
    end
  end
  letters[i] = letter
end
if moved > 0 then call('PUBLISH', 'delaybridge:jobs:wake', ARGV[1]) end
return {now, table.concat(letters)}
