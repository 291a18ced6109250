-- Finds the queues of a server from which a claim would take something, many queues in one call. Read-only, and without the
-- prelude: its keys are those of many queues.
--
-- KEYS sorted sets and lists, in groups
-- ARGV for each group: its number of keys, and the last score that counts, or '' for lists
-- Returns the numbers of the keys with members up to that score, and of those that cannot be read: that is the claim's to report.
--
-- Most queues at rest have neither retries nor claims, and many are empty: one EXISTS says so of many keys. A user without the
-- right to it reads each key.

local found = {}

local function is_empty(key, score)
  if score == '' then return redis.pcall('LLEN', key) == 0 end
  return redis.pcall('ZCOUNT', key, '-inf', score) == 0
end

local function look(first, last, score)
  local there = redis.pcall('EXISTS', unpack(KEYS, first, last))
  if there == 0 then return end
  if first < last and type(there) == 'number' and 4 * there < last - first then
    local middle = math.floor((first + last) / 2)
    look(first, middle, score)
    return look(middle + 1, last, score)
  end
  for i = first, last do
    if not is_empty(KEYS[i], score) then found[#found + 1] = i end
  end
end

local at = 0
for i = 1, #ARGV, 2 do
  local count = tonumber(ARGV[i])
  look(at + 1, at + count, ARGV[i + 1])
  at = at + count
end
return found
