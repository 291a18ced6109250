-- KEYS 1 sorted set, 2 list; ARGV elements. Returns how many were removed.
local removed = 0
for _, element in ipairs(ARGV) do
  if redis.call('ZREM', KEYS[1], element) == 1 then
    redis.call('LREM', KEYS[2], 1, element)
    removed = removed + 1
  end
end
return removed
