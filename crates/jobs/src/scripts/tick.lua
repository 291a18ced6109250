-- Applies time limits: reservations and times to live end, dead jobs, remembered ids and unique keys expire.
--
-- ARGV 1 maximum number of each kind, 2 exact length to which the dead jobs are trimmed, or '', 3 time for which dead
--      jobs are kept (ms), or '', 4 name of the topic, 5 wait after a first attempt that ran out (ms), 6 the longest such
--      wait
-- Returns {now, {came back, died, expired, trimmed, set aside}, delay, ready, reserved, dead, due time of the first
--      waiting job or '', 1 if there was more to do than `most`, 1 if the topic is paused, next firing of a
--      recurring job or '', the time at which the first of these limits is reached or ''}. What is due by then, a firing
--      and a new job that may change this are not in the last.
--
-- Repeated, or by several daemons: the second run continues.

--#include limit.lua
local now = clock()
local most, counts, more, firing = tonumber(ARGV[1]), {0, 0, 0, 0, 0}, 0, ''

-- The score of the first member, or nil.
local function first(key)
  local some = typed(key, 'ZRANGE', 0, 0, 'WITHSCORES')
  return some and tonumber(some[2])
end

local topic = typed(TOPIC, 'HMGET', 'paused', 'unique', 'recurring', 'urgent', 'dead_max_len', 'dead_ttl')
local dead, reserved = typed(DEAD, 'ZCARD'), typed(RESERVED, 'ZCARD')
local all = typed(DUE, 'ZCARD')
-- For their types: of the keys that each job uses, a key of another program is noticed in a topic at rest.
typed(RECORDS, 'HLEN')
typed(STATE, 'HLEN')
if bad then return bad end
local max, kept = limit(topic[5], ARGV[2]), limit(topic[6], ARGV[3])
local died = dead > 0 and kept and first(DEAD)
local ends = {reserved > 0 and first(RESERVED), first(EXPIRY), first(GONE), died and died + kept}
local gone = ends[3] and ends[3] <= now and typed(GONE, 'ZCOUNT', '-inf', ms(now)) or 0
if bad then return bad end
local limit_reached = dead > 0 and max and dead > max
for i = 1, 4 do limit_reached = limit_reached or ends[i] and ends[i] <= now end

-- Does what there is to do. A topic at rest has nothing to do, and does not pay for these functions.
local function work()
  --#include types.lua
  --#include state.lua
  --#include moves.lua
  --#include free_keys.lua
  --#include wake.lua

  local wrong = wrong_type()
  if wrong then return wrong end
  come_back(now, most, counts, ARGV[5], ARGV[6])
  if counts[1] + counts[2] + counts[3] + counts[5] >= most then more = 1 end
  if counts[1] > 0 then
    wake(ARGV[4])
    topic = call('HMGET', TOPIC, 'paused', 'unique', 'recurring', 'urgent')
  end

  local ids = call('ZRANGEBYSCORE', EXPIRY, '-inf', ms(now), 'LIMIT', 0, most)
  if #ids == most then more = 1 end
  for i = 1, #ids do
    local ends = call('ZSCORE', RESERVED, ids[i])
    if ends then
      -- Its consumer may finish it. Otherwise the job is looked at again.
      call('ZREMRANGEBYRANK', EXPIRY, 1, 0)
      call('ZADD', EXPIRY, ms(math.max(tonumber(ends), now) + 1), ids[i])
    else
      -- Without a record, a queue has delivered it and counted its end.
      counts[3] = counts[3] + forget(ids[i])
      call('ZREM', DUE, ids[i])
      if topic[4] then call('ZREM', URGENT, ids[i]) end
    end
  end

  counts[4] = trim_dead(ARGV[2])
  if counts[4] == 100 then more = 1 end
  if kept then
    local old = call('ZRANGEBYSCORE', DEAD, '-inf', ms(now - kept), 'LIMIT', 0, most)
    for i = 1, #old do
      call('ZREM', DEAD, old[i])
      forget(old[i])
    end
    counts[4] = counts[4] + #old
    if #old == most then more = 1 end
  end
  if gone > 0 then call('ZREMRANGEBYRANK', GONE, 0, math.min(gone, 10 * most) - 1) end
  if topic[2] then
    local ended = math.min(call('ZCOUNT', UNIQUE, '-inf', ms(now)), most)
    if ended > 0 then
      call('HDEL', HOLDERS, unpack(call('ZRANGE', UNIQUE, 0, ended - 1)))
      call('ZREMRANGEBYRANK', UNIQUE, 0, ended - 1)
    end
    -- Keys that wait for no job are found by samples. Where there are many more keys than jobs, the sample is large, and the
    -- next one comes at once while a hundredth of it was free.
    local many = call('ZCARD', UNIQUE) > call('HLEN', RECORDS) + 250
    local free = free_keys(many and 1000 or 100)
    if free[1] then
      call('HDEL', HOLDERS, unpack(free))
      call('ZREM', UNIQUE, unpack(free))
    end
    if many and #free >= 10 then more = 1 end
    if call('ZCARD', UNIQUE) == 0 then call('HDEL', TOPIC, 'unique') end
  end
  if topic[4] then
    -- A daemon of an earlier version takes jobs and leaves them here. A sample finds them after a while, wherever they are.
    local some = call('ZRANDMEMBER', URGENT, 10)
    local dues = some[1] and call('ZMSCORE', DUE, unpack(some))
    for i = 1, #some do
      if not dues[i] then call('ZREM', URGENT, some[i]) end
    end
    if call('ZCARD', URGENT) == 0 then call('HDEL', TOPIC, 'urgent') end
  end

  if topic[3] then
    -- One script writes a firing and its definition. What has a firing alone is of another program, and would stay due for ever.
    local due = call('ZRANGEBYSCORE', FIRINGS, '-inf', ms(now), 'LIMIT', 0, 1000)
    for i = 1, #due do
      if call('HEXISTS', RECURRING, due[i]) == 0 then call('ZREM', FIRINGS, due[i]) end
    end
    firing = call('ZRANGE', FIRINGS, 0, 0, 'WITHSCORES')[2] or ''
  end
  all, dead, reserved = call('ZCARD', DUE), call('ZCARD', DEAD), call('ZCARD', RESERVED)
  died = dead > 0 and kept and first(DEAD)
  -- Samples are taken once a minute.
  local sample = (topic[2] or topic[4]) and now + 60000
  ends = {reserved > 0 and first(RESERVED), first(EXPIRY), first(GONE), died and died + kept, sample}
end

if limit_reached or topic[2] or topic[3] or topic[4] then
  local wrong = work()
  if wrong then return wrong end
end
local head, ready = {}, 0
if all > 0 then
  head = call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  ready = call('ZCOUNT', DUE, '-inf', ms(now))
end
local next = math.huge
for i = 1, 5 do next = math.min(next, ends[i] or math.huge) end
return {now, counts, all - ready, ready, reserved, dead, head[2] or '', more, topic[1] and 1 or 0, firing,
  next < math.huge and ms(next) or ''}
