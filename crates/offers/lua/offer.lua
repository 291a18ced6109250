-- Offers one element as Redisson does, the announcement on the channel included.
--
-- KEYS 1 sorted set, 2 list, 3 the mark of the id, or absent
-- ARGV 1 channel, 2 element, 3 'at' or 'after', 4 due time or delay (ms), 5 life of the mark (ms)
-- Returns {'offered' or 'already', due time (ms)}.
local function wrong_type(key, want)
  local kind = redis.call('TYPE', key).ok
  if kind ~= want and kind ~= 'none' then
    return redis.error_reply('WRONGTYPE ' .. key .. ' holds a ' .. kind .. ', expected a ' .. want)
  end
end
local bad = wrong_type(KEYS[1], 'zset') or wrong_type(KEYS[2], 'list')
if bad then return bad end
local standing = redis.call('ZSCORE', KEYS[1], ARGV[2])
if standing then return {'already', standing} end
local due = tonumber(ARGV[4])
if ARGV[3] == 'after' then
  local time = redis.call('TIME')
  due = due + tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
due = string.format('%.0f', due)
if KEYS[3] and not redis.call('SET', KEYS[3], due, 'NX', 'PX', ARGV[5]) then
  return {'already', redis.call('GET', KEYS[3])}
end
redis.call('ZADD', KEYS[1], due, ARGV[2])
redis.call('RPUSH', KEYS[2], ARGV[2])
-- Redisson reads the head and compares; a large one is not read here.
if redis.call('ZRANK', KEYS[1], ARGV[2]) == 0 then redis.call('PUBLISH', ARGV[1], due) end
return {'offered', due}
