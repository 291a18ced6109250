-- Removes dead jobs for good: the oldest ones, or those with the given ids.
--
-- ARGV 1 only those that died before this time (ms), or '', 2 maximum number of jobs, then ids
-- Returns {now, number of removed jobs}.
--
-- Repeated: they are gone. Without ids and without a time the second run removes the next ones.

--#include types.lua
--#include state.lua
--#include moves.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local ids, count = {}, 0
if ARGV[3] then
  for i = 3, #ARGV do ids[#ids + 1] = ARGV[i] end
else
  local till = ARGV[1] == '' and '+inf' or '(' .. ARGV[1]
  ids = call('ZRANGEBYSCORE', DEAD, '-inf', till, 'LIMIT', 0, tonumber(ARGV[2]))
end
for i = 1, #ids do
  if call('ZREM', DEAD, ids[i]) == 1 then
    forget(ids[i])
    count = count + 1
  end
end
return {now, count}
