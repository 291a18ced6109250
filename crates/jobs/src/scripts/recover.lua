-- Releases the jobs that a pop with a lost reply has reserved; the attempt does not count.
--
-- ARGV 1 token of the lost call, 2 number of reservations to skip, 3 number to look at, 4 name of the topic
-- Returns {now, number of released jobs, number to skip next time, or -1 at the end}.
--
-- Only after not_after of the lost call, when it can run no more. Repeated: no reservation has the token any more.
-- Reservations come and go while pages are read, and one may be missed: its time to run ends in any case.

--#include types.lua
--#include state.lua
--#include moves.lua
--#include wake.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local from, page, found = tonumber(ARGV[2]), tonumber(ARGV[3]), 0
local ids = call('ZRANGE', RESERVED, from, from + page - 1)
if not ids[1] then return {now, 0, -1} end
local states = call('HMGET', STATE, unpack(ids))
for i = 1, #ids do
  local s = states[i] and string.sub(states[i], 30, 45) == ARGV[1] and unpack_state(states[i])
  if s then
    open()
    s.attempts, s.reason = math.max(s.attempts - 1, 0), 'lost'
    give_back(ids[i], s, now, s.reserved)
    call('ZREM', RESERVED, ids[i])
    found = found + 1
  end
end
if found > 0 then wake(ARGV[4]) end
return {now, found, #ids < page and -1 or from + page - found}
