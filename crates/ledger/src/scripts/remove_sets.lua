-- The half of a source of sorted sets: every one of them, in which an element may be once more.
local HALF_TYPES = {}
for k = 3, 2 + halves do HALF_TYPES[k - 2] = 'zset' end
local function again(element)
  for k = 3, 2 + halves do
    if redis.call('ZSCORE', KEYS[k], element) then return true end
  end
  return false
end
local function drop(element)
  for k = 3, 2 + halves do
    if KEYS[k] ~= Z then redis.call('ZREM', KEYS[k], element) end
  end
end
