-- Cancels elements, or moves one to another time.
--
-- KEYS 1 Z sorted set, 2 L list
-- ARGV 'cancel', due time (ms), id (8 bytes)
--   or 'remove', element...
--   or 'move', due time (ms), id (8 bytes), new due time (ms), channel
-- Returns how many elements were scheduled, and so were removed or moved.
--
-- Sent twice: the second run finds the element no more, or at another time, and changes nothing.

local Z, L = KEYS[1], KEYS[2]
-- A key of another type ends the script here, before anything is written.
redis.call('ZCARD', Z)
redis.call('LLEN', L)

local function at(rank)
  return redis.call('ZRANGE', Z, rank, rank)[1]
end

-- Whether the bytes sort before this prefix. The operator < would compare by the locale.
local function before(bytes, prefix)
  for i = 1, #prefix do
    local b, p = string.byte(bytes, i) or -1, string.byte(prefix, i)
    if b ~= p then return b < p end
  end
  return false
end

-- Whether an element has this many bytes before its payload: the length that ends there fits.
local function has_header(element, header)
  return #element >= header and struct.unpack('<I8', element, header - 7) == #element - header
end

-- The element with this id and due time, in either layout. Elements of one score are in the order of their bytes, so few
-- of them are read: thousands may be due at the same time, and each may be large.
local function find(due, id)
  local first = redis.call('ZCOUNT', Z, '-inf', '(' .. due)
  local last = first + redis.call('ZCOUNT', Z, due, due)
  for header, prefix in pairs({[17] = '\8' .. id, [16] = id}) do
    local low, high, element = first, last, nil
    while low < high do
      local middle = math.floor((low + high) / 2)
      local read = at(middle)
      if before(read, prefix) then low = middle + 1 else high, element = middle, read end
    end
    -- The last one read as `high` is at `low` now: the first that does not sort before the prefix.
    while element and string.sub(element, 1, #prefix) == prefix do
      if has_header(element, header) then return element end
      low = low + 1
      element = low < last and at(low)
    end
  end
end

local function remove(element)
  if redis.call('ZREM', Z, element) == 0 then
    -- An entry in L may be left by a consumer that has a record of it.
    return 0
  end
  -- From the near end: most entries that are cancelled were offered lately, so the tail is the guess.
  local near_head = redis.call('LPOS', L, element, 'MAXLEN', 1000)
  redis.call('LREM', L, near_head and 1 or -1, element)
  return 1
end

if ARGV[1] == 'remove' then
  local removed = 0
  for i = 2, #ARGV do removed = removed + remove(ARGV[i]) end
  return removed
end

local element = find(ARGV[2], ARGV[3])
if not element then return 0 end
if ARGV[1] == 'cancel' then return remove(element) end
local due = ARGV[4]
redis.call('ZADD', Z, 'XX', due, element)
if redis.call('ZCOUNT', Z, '-inf', '(' .. due) == 0 then
  redis.call('PUBLISH', ARGV[5], due)
end
return 1
