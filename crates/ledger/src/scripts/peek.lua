-- Returns entries of a sorted set or a list, from one place on. Reads only.
--
-- KEYS 1 the zset or list
-- ARGV 1 'zset' or 'list', 2 first place (from 0), 3 most entries, 4 most bytes to read, 5 bytes to show of each, 6 bytes that entries
--      have on average at most, else none is read
-- Returns {now, entries in all, {score or '', size, first bytes, ...}}: at least one entry if there is one at that place,
--      however large it is.
--
-- Sent twice: it reads again.

local bad = wrong_type(ARGV[1])
if bad then return bad end
local now = clock()
local zset = ARGV[1] == 'zset'
local place, count, bytes, shown = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local total = redis.call(zset and 'ZCARD' or 'LLEN', KEYS[1])
local mean = tonumber(ARGV[6])
if mean < 2 ^ 30 and total > 0 and redis.call('MEMORY', 'USAGE', KEYS[1], 'SAMPLES', 3) / total > mean then
  return {now, total, {}}
end

local found, taken, largest, last = {}, 0, 0, 0
while place < total do
  -- Few at a time: nothing shows how large the members at a place are before they are read.
  local n = math.min(chunk(count - taken, bytes, largest, taken, last), 8)
  if n == 0 then break end
  last = n
  local page
  if zset then
    page = redis.call('ZRANGE', KEYS[1], place, place + n - 1, 'WITHSCORES')
  else
    page = redis.call('LRANGE', KEYS[1], place, place + n - 1)
  end
  local step = zset and 2 or 1
  if #page == 0 then break end
  for i = 1, #page, step do
    local size = #page[i]
    found[#found + 1] = zset and page[i + 1] or ''
    found[#found + 1] = size
    found[#found + 1] = string.sub(page[i], 1, shown)
    taken, bytes, largest = taken + 1, bytes - size, math.max(largest, size)
  end
  place = place + n
end
return {now, total, found}
