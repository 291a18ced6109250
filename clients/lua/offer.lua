-- Schedules elements as Redisson does, all or none of them, and announces a new head.
--
-- KEYS 1 Z sorted set, 2 L list, 3... keys of the offers whose id the caller chose (delaybridge:offer:T:ID)
-- ARGV 1 channel, 2 how long those keys are kept (ms), then for each element: time, element, number of its key or 0
--      time: the due time (ms since 1970), or + and a delay (ms) that is added to Redis's clock
-- Returns the due time of each element, as text.
--
-- Sent twice: an element that is in Z, or whose key is there, stays as it is, and its due time is the answer.

local Z, L = KEYS[1], KEYS[2]
-- A key of another type ends the script here, before anything is written.
redis.call('ZCARD', Z)
redis.call('LLEN', L)
for i = 3, #KEYS do redis.call('GET', KEYS[i]) end

local dues, now, soonest = {}, nil, nil
for i = 3, #ARGV, 3 do
  local due, element, key = ARGV[i], ARGV[i + 1], KEYS[tonumber(ARGV[i + 2])]
  local standing = key and redis.call('GET', key) or redis.call('ZSCORE', Z, element)
  if standing then
    due = standing
  else
    if string.sub(due, 1, 1) == '+' then
      if not now then
        local t = redis.call('TIME')
        now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
      end
      due = string.format('%.0f', now + tonumber(due))
    end
    if key then redis.call('SET', key, due, 'PX', ARGV[2]) end
    redis.call('ZADD', Z, due, element)
    redis.call('RPUSH', L, element)
    if not soonest or tonumber(due) < tonumber(soonest) then soonest = due end
  end
  dues[#dues + 1] = due
end
-- Redisson reads the head and compares. It may be large, so it is counted here.
if soonest and redis.call('ZCOUNT', Z, '-inf', '(' .. soonest) == 0 then
  redis.call('PUBLISH', ARGV[1], soonest)
end
return dues
