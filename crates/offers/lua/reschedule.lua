-- KEYS 1 sorted set; ARGV 1 channel, 2 due time (ms), 3 what the element begins with, 4 new due time (ms)
-- Returns 1 if it was moved.
for _, element in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], ARGV[2])) do
  if string.sub(element, 1, #ARGV[3]) == ARGV[3] then
    redis.call('ZADD', KEYS[1], 'XX', ARGV[4], element)
    if redis.call('ZRANK', KEYS[1], element) == 0 then redis.call('PUBLISH', ARGV[1], ARGV[4]) end
    return 1
  end
end
return 0
