-- Compares the order of jobs with a priority (9) with the jobs that wait (1), and repairs it if asked to.
--
-- ARGV 1 'members' of 9 or 'jobs' of 1: what is looked at, 2 number to skip, 3 maximum number, 4 maximum size of records in
--      bytes, 5 '1' to repair, else ''
-- Returns {now, number looked at, number to skip next, {id, ...}}: the ids are members without a waiting job, or jobs that have
--      another place in the order than their priority and due time say.
--
-- Repeated: what was repaired is right, so it is not found. A member without a job is removed; a job gets its place, or none.

--#include types.lua
--#include state.lua
--#include priority.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local first, most, bytes, repair = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'
local found = {}
if ARGV[1] == 'members' then
  local ids = call('ZRANGE', URGENT, first, first + most - 1)
  for i = 1, #ids do
    if not call('ZSCORE', DUE, ids[i]) then
      found[#found + 1] = ids[i]
      if repair then call('ZREM', URGENT, ids[i]) end
    end
  end
  return {now, #ids, first + #ids - (repair and #found or 0), found}
end

local rows, looked, opened = call('ZRANGE', DUE, first, first + most - 1, 'WITHSCORES'), 0, false
local flag = call('HEXISTS', TOPIC, 'urgent') == 1
for i = 1, #rows, 2 do
  local id, due = rows[i], tonumber(rows[i + 1])
  bytes = bytes - call('HSTRLEN', RECORDS, id)
  if bytes < 0 and i > 1 then break end
  local record, order = call('HGET', RECORDS, id), call('ZSCORE', URGENT, id)
  -- Without a record that this version reads, no priority is known.
  if record and is_id(id) and is_record(record) then
    local priority = math.min(string.byte(record, 26), 9)
    local wanted = priority > 0 and rank(priority, due)
    local right = not wanted and not order or wanted and flag and order and tonumber(order) == tonumber(wanted)
    if not right then
      found[#found + 1] = id
      if repair then
        if not opened then open() end
        opened = true
        if wanted then wait_until(id, due, priority) else call('ZREM', URGENT, id) end
      end
    end
  end
  looked = looked + 1
end
return {now, looked, first + looked, found}
