-- Restarts the time to run of reservations.
--
-- ARGV for each job: id, token, time to run (ms), or '' for that of the reservation
-- Returns {now, letters, {end of the reservation, ...}}: y done, c not reserved under this token any more, n no such job.
--
-- Repeated: the ends move twice, as for a consumer that asks twice.

--#include types.lua
--#include state.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local letters, ends = {}, {}
for i = 1, #ARGV, 3 do
  local id, letter, till = ARGV[i], 'n', 0
  local text = call('HGET', STATE, id)
  local s = text and string.sub(text, 30, 45) == ARGV[i + 1] and unpack_state(text)
  if s and call('ZSCORE', RESERVED, id) then
    open()
    local ttr = ARGV[i + 2] == '' and s.ttr or tonumber(ARGV[i + 2])
    if ttr ~= s.ttr then
      s.ttr = ttr
      call('HSET', STATE, id, pack_state(s))
    end
    letter, till = 'y', now + ttr
    call('ZADD', RESERVED, ms(till), id)
  elseif call('HEXISTS', RECORDS, id) == 1 then
    letter = 'c'
  end
  letters[#letters + 1], ends[#ends + 1] = letter, till
end
return {now, table.concat(letters), ends}
