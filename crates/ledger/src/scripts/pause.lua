-- Pauses a queue, or one of its sinks for it, or ends such a pause; and tells the daemons that serve the queue to look.
--
-- KEYS 1 state hash
-- ARGV 1 field of the pause, 2 presence channel, 3 nonce (new for every command), or '' to end the pause, then 4 how long
--      (ms), or '', 5 the time of its end (ms), or '', 6 who, 7 why
-- Returns {now, what the field held, or '', what it holds now, or '', 1 if the daemons were notified}; {now} where the end is over
--      already, and nothing was changed.
--
-- Sent twice: a pause finds its nonce, and keeps its beginning and its end; the end of a pause finds none.

local bad = wrong_type('hash')
if bad then return bad end
local now = clock()
local before = redis.call('HMGET', KEYS[1], ARGV[1])[1] or ''
local after = ''
if ARGV[3] ~= '' then
  local ends = ARGV[5]
  if ARGV[4] ~= '' then ends = ms(now + tonumber(ARGV[4])) end
  after = ARGV[3] .. ' ' .. ms(now) .. ' ' .. ends .. '\n' .. ARGV[6] .. '\n' .. ARGV[7]
  if string.sub(before, 1, #ARGV[3] + 1) == ARGV[3] .. ' ' then
    after = before
  elseif ends ~= '' and tonumber(ends) <= now then
    return {now}
  end
end
-- The first: a full Redis refuses a script if its first write may need memory.
redis.call('HDEL', KEYS[1], after == '' and ARGV[1] or '')
if after ~= '' and after ~= before then redis.call('HSET', KEYS[1], ARGV[1], after) end
-- A right to publish that is missing must not hide what was written: daemons look by themselves too, only later.
local notified = redis.pcall('PUBLISH', ARGV[2], 'pause')
return {now, before, after, type(notified) == 'number' and 1 or 0}
