-- Removes jobs for good, whatever their state.
--
-- ARGV ids
-- Returns {now, letters}: w it waited, r it was reserved, d it was dead, f a queue delivers it, n no such job.
--
-- Repeated: the second run returns n. The job's consumer learns of it when it settles. The id is not remembered, so a
-- deleted job may be added again.

--#include types.lua
--#include state.lua
--#include moves.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local letters, urgent = {}, call('HEXISTS', TOPIC, 'urgent') == 1
for i = 1, #ARGV do
  local id, letter = ARGV[i], 'n'
  local known = call('HEXISTS', RECORDS, id) == 1
  if known then forget(id) end
  if urgent then call('ZREM', URGENT, id) end
  if call('ZREM', DUE, id) == 1 then letter = 'w'
  elseif call('ZREM', RESERVED, id) == 1 then letter = 'r'
  elseif call('ZREM', DEAD, id) == 1 then letter = 'd'
  else letter = 'f' end
  letters[#letters + 1] = known and letter or 'n'
end
return {now, table.concat(letters)}
