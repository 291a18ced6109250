-- Shared by all scripts: put in front of each, because Redis knows no shared functions. No script starts with a #! line:
-- a Redis that is full refuses such a script as a whole, and a full Redis must be drainable.

-- Entries of ours carry a header before the element; entry.rs documents every field. Offsets here are Lua's (from 1).
local HEADER = 86
local MAGIC = '\219\1'

local function known(m)
  return #m >= HEADER and string.sub(m, 1, 2) == MAGIC
end

-- Seconds, microseconds and milliseconds by the clock that decides (R9).
local function clock()
  local t = redis.call('TIME')
  local s, us = tonumber(t[1]), tonumber(t[2])
  return s * 1000 + math.floor(us / 1000), string.format('%d.%06d', s, us)
end

-- Redis does not roll a script back, so every type is known to be right before the first write.
local function wrong_type(...)
  local want = {...}
  for i = 1, #want do
    local kind = redis.call('TYPE', KEYS[i]).ok
    if kind ~= want[i] and kind ~= 'none' then
      return redis.error_reply('WRONGKEY ' .. KEYS[i] .. ' holds a ' .. kind .. ', expected a ' .. want[i])
    end
  end
end

-- A script is refused additions on a full Redis only until it has written something; removing nothing is enough. Adding
-- nothing then shows that the user may: a right that is found missing later would leave a move half done.
local function open(zset)
  redis.call('ZREM', zset, '')
  redis.call('ZADD', zset, 'XX', 0, '')
end

-- Score and size of a zset's head without reading a head that is known to be large: `large` is its score or ''. It is
-- known only while an element is at that score and none before it; else it has been taken, and would be announced
-- as due for ever. Answers '' and 0 when the zset is empty.
local function head(zset, large)
  if large ~= '' and redis.call('ZCOUNT', zset, large, large) > 0
    and redis.call('ZCOUNT', zset, '-inf', '(' .. large) == 0 then
    return large, -1
  end
  local first = redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')
  if not first[1] then return '', 0 end
  return first[2], #first[1]
end

-- How many elements to read next: one to begin with, then twice as many as the `last` time, up to 64, if they fit into
-- the bytes left were they all as large as the largest seen. Reading costs 5 ms per MB, before any limit can look at what
-- was read, and the largest element may follow the smallest.
local function chunk(count_left, bytes_left, largest, taken, last)
  if count_left <= 0 or bytes_left <= 0 and taken > 0 then return 0 end
  local fit = largest > 0 and math.floor(bytes_left / largest) or 1
  if fit < 1 then
    if taken > 0 then return 0 end
    fit = 1
  end
  return math.min(fit, count_left, math.max(1, 2 * last), 64)
end
