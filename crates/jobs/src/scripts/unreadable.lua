-- Finds jobs of one state that this version cannot read. Read-only.
--
-- ARGV 1 'ready' or 'delay' for waiting jobs, 'reserved' or 'dead', 2 number to skip, 3 maximum number of jobs, 4
--      maximum size in bytes
-- Returns {now, number of jobs looked at, {id, ...}}: at least one is looked at, if there is one.

--#include types.lua
--#include state.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local key = ARGV[1] == 'reserved' and RESERVED or ARGV[1] == 'dead' and DEAD or DUE
local first, bytes, looked, found = tonumber(ARGV[2]), tonumber(ARGV[4]), 0, {}
local ids = call('ZRANGE', key, first, first + tonumber(ARGV[3]) - 1)
for i = 1, #ids do
  local id = ids[i]
  bytes = bytes - call('HSTRLEN', RECORDS, id)
  if bytes < 0 and i > 1 then break end
  local record, text = call('HGET', RECORDS, id), call('HGET', STATE, id)
  -- Without a record it is not a job.
  if record and not (is_id(id) and is_record(record) and (not text or unpack_state(text))) then found[#found + 1] = id end
  looked = i
end
return {now, looked, found}
