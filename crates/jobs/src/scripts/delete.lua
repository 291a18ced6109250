-- Removes jobs for good, whatever their state.
--
-- ARGV 1 time (ms) for which deleted jobs with ids of their clients are remembered, or '', 2 content type of those that are, then ids
-- Returns {now, letters}: w it waited, r it was reserved, d it was dead, f a queue delivers it, n no such job.
--
-- Repeated: the second run returns n. The job's consumer learns of it when it settles. A deleted job may be added again. Of messages
-- of inputs it is known for a while, so that one that its broker hands out again is not. Another message with its contents is no
-- repetition of it.

--#include types.lua
--#include state.lua
--#include moves.lua
--#include deleted.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local letters, urgent = {}, call('HEXISTS', TOPIC, 'urgent') == 1
for i = 3, #ARGV do
  local id, letter = ARGV[i], 'n'
  local record = call('HGET', RECORDS, id)
  local known = record and true
  if known then forget(id) end
  -- After a removal, so that a full Redis takes it.
  if known and is_record(record) and string.byte(record, 2) == 1 then
    local body = 28 + string.byte(record, 27)
    if string.sub(record, 28, body - 1) == ARGV[2] then
      local hash = redis.sha1hex(string.sub(record, body))
      call('ZADD', GONE, 'XX', ms(now), mark('=', id, hash))
      if ARGV[1] ~= '' then call('ZADD', GONE, ms(now + tonumber(ARGV[1])), mark('!', id, hash)) end
    end
  end
  if urgent then call('ZREM', URGENT, id) end
  if call('ZREM', DUE, id) == 1 then letter = 'w'
  elseif call('ZREM', RESERVED, id) == 1 then letter = 'r'
  elseif call('ZREM', DEAD, id) == 1 then letter = 'd'
  else letter = 'f' end
  letters[i - 2] = known and letter or 'n'
end
return {now, table.concat(letters)}
