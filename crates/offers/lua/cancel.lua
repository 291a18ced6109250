-- Cancels one offer: the element with this due time and this identity.
--
-- KEYS 1 sorted set, 2 list
-- ARGV 1 due time (ms), 2 what the element begins with
-- Returns how many were removed: 1 or 0.
for _, element in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], ARGV[1])) do
  if string.sub(element, 1, #ARGV[2]) == ARGV[2] then
    redis.call('ZREM', KEYS[1], element)
    redis.call('LREM', KEYS[2], 1, element)
    return 1
  end
end
return 0
