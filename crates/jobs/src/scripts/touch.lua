-- Restarts the time to run of a reservation.
--
-- ARGV 1 id, 2 token, 3 time to run (ms), or '' for that of the reservation
-- Returns {now, letter, end of the reservation}: y done, c not reserved under this token any more, n no such job.
--
-- Repeated: the end moves twice, as for a consumer that asks twice.

--#include types.lua
--#include state.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local id = ARGV[1]
local text = call('HGET', STATE, id)
local s = text and string.sub(text, 30, 45) == ARGV[2] and unpack_state(text)
if s and call('ZSCORE', RESERVED, id) then
  open()
  if ARGV[3] ~= '' and tonumber(ARGV[3]) ~= s.ttr then
    s.ttr = tonumber(ARGV[3])
    call('HSET', STATE, id, pack_state(s))
  end
  call('ZADD', RESERVED, ms(now + s.ttr), id)
  return {now, 'y', now + s.ttr}
end
return {now, call('HEXISTS', RECORDS, id) == 1 and 'c' or 'n', 0}
