-- Jobs that their consumers have finished: they are gone.
--
-- ARGV 1 how long (ms) the ids of clients are remembered, or '', then for each job: id, token
-- Returns {now, letters}: y it is gone now, c it is not reserved under this token any more, n there is no such job.
--
-- Sent twice: the second run answers n. A job whose time to run is over, but which nothing has given back or reserved
-- again, is its consumer's still.

local now = clock()
typed(RECORDS, 'HLEN')
typed(STATE, 'HLEN')
typed(EXPIRY, 'ZCARD')
typed(GONE, 'ZCARD')
typed(RESERVED, 'ZCARD')
if bad then return bad end

local letters, remembered = {}, 0
for i = 2, #ARGV, 2 do
  local id, letter = ARGV[i], 'n'
  local text = call('HGET', STATE, id)
  if text and string.sub(text, 30, 45) == ARGV[i + 1] and call('ZSCORE', RESERVED, id) then
    if string.byte(text) == 1 and ARGV[1] ~= '' then
      -- A full Redis refuses additions until a script has removed something, be it nothing.
      call('ZREMRANGEBYRANK', RESERVED, 1, 0)
      call('ZADD', GONE, ms(now + tonumber(ARGV[1])), id)
      remembered = remembered + 1
    end
    call('HDEL', RECORDS, id)
    call('HDEL', STATE, id)
    if struct.unpack('<I8', text, 22) > 0 then call('ZREM', EXPIRY, id) end
    call('ZREM', RESERVED, id)
    letter = 'y'
  elseif call('HEXISTS', RECORDS, id) == 1 then
    letter = 'c'
  end
  letters[#letters + 1] = letter
end
-- What is over is forgotten twice as fast as it is remembered.
if remembered > 0 then
  local over = math.min(call('ZCOUNT', GONE, '-inf', ms(now)), 2 * remembered)
  if over > 0 then call('ZREMRANGEBYRANK', GONE, 0, over - 1) end
end
return {now, table.concat(letters)}
