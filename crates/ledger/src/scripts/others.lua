-- Notes whether clients other than daemons listen to the queue's channel, so that a later look knows since when none does.
--
-- KEYS 1 state hash
-- ARGV 1 how long ago one was seen last (ms), 0 for now, or '' for never; 2 how long from now on the note holds (ms)
-- Returns the time.
--
-- The field `others` is text, `SINCE SEEN UNTIL`: daemons have looked without a gap from SINCE to UNTIL, and SEEN is when they
-- saw one last, or empty. Who finds a note that holds no more begins another: in the gap one may have come and gone.
--
-- Sent twice: the second notes the same again.

local bad = wrong_type('hash')
if bad then return bad end
local now = clock()
local before = redis.call('HMGET', KEYS[1], 'others')[1] or ''
local since, seen, hold = string.match(before, '^(%d+) (%d*) (%d+)$')
since, seen, hold = tonumber(since), tonumber(seen), tonumber(hold)
if not hold or hold < now then since, seen, hold = now, nil, 0 end
if ARGV[1] ~= '' then seen = math.max(seen or 0, now - tonumber(ARGV[1])) end
hold = math.max(hold, now + tonumber(ARGV[2]))
-- The first: a full Redis refuses a script if its first write may need memory.
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], 'others', ms(since) .. ' ' .. (seen and ms(seen) or '') .. ' ' .. ms(hold))
return now
