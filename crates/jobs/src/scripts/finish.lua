-- Finishes jobs, which are removed.
--
-- ARGV 1 time (ms) for which clients' ids are remembered, or '', then for each job: id, token
-- Returns {now, letters}: y finished, c not reserved under this token any more, n no such job.
--
-- Repeated: the second run returns n. A job whose time to run has ended, but which was neither given back nor reserved
-- again, can still be finished by its consumer.

-- All reads come before the first write, because they check the types. EXPIRY and GONE are read only if they are
-- written.
local now = clock()
typed(RECORDS, 'HLEN')
local held = {}
for i = 2, #ARGV, 2 do
  local id, text = ARGV[i], typed(STATE, 'HGET', ARGV[i])
  if text and string.sub(text, 30, 45) == ARGV[i + 1] and typed(RESERVED, 'ZSCORE', id) then
    held[id] = text
    if struct.unpack('<I8', text, 22) > 0 then typed(EXPIRY, 'ZCARD') end
    if string.byte(text) == 1 and ARGV[1] ~= '' then typed(GONE, 'ZCARD') end
  end
end
if bad then return bad end

local letters, remembered = {}, 0
for i = 2, #ARGV, 2 do
  local id, letter, text = ARGV[i], 'n', held[ARGV[i]]
  if text and string.sub(text, 30, 45) == ARGV[i + 1] then
    if string.byte(text) == 1 and ARGV[1] ~= '' then
      -- A full Redis refuses additions until a script has removed something, even nothing.
      call('ZREMRANGEBYRANK', RESERVED, 1, 0)
      call('ZADD', GONE, ms(now + tonumber(ARGV[1])), id)
      remembered = remembered + 1
    end
    call('HDEL', RECORDS, id)
    call('HDEL', STATE, id)
    if struct.unpack('<I8', text, 22) > 0 then call('ZREM', EXPIRY, id) end
    call('ZREM', RESERVED, id)
    -- The same job once more in this call is gone.
    held[id], letter = nil, 'y'
  elseif call('HEXISTS', RECORDS, id) == 1 then
    letter = 'c'
  end
  letters[#letters + 1] = letter
end
-- Expired ids are forgotten twice as fast as ids are added.
if remembered > 0 then
  local over = math.min(call('ZCOUNT', GONE, '-inf', ms(now)), 2 * remembered)
  if over > 0 then call('ZREMRANGEBYRANK', GONE, 0, over - 1) end
end
return {now, table.concat(letters)}
