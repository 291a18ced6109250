-- Shared by all scripts: put in front of each, because Redis knows no shared functions. No script starts with a #! line:
-- a Redis that is full refuses such a script as a whole, and a full Redis must be drainable.

-- Entries of ours carry a header before the element, which may be empty; entry.rs documents every field. Offsets here are
-- Lua's (from 1).
local HEADER = 80
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

-- A time in ms, or a score in the unit of the source, as Redis reads it back to the same number.
local function ms(n)
  return string.format('%.17g', n)
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

-- A script is refused additions on a full Redis only until it has written something; removing what is not there is enough.
-- Adding nothing then shows that the user may: a right that is found missing later would leave a move half done. Any
-- string may be an element of another program, the empty one too, so a member is looked for that is none.
local function open(zset)
  local none = ''
  while redis.call('ZSCORE', zset, none) do none = none .. '-' end
  redis.call('ZREM', zset, none)
  redis.call('ZADD', zset, 'XX', 0, none)
end

-- Score of a zset's head, '' where it is empty. One that is too large to be read (5 ms per MB) is found by counting, which
-- compares bytes only when it meets an element: how far it is from `now` is then known to a factor of two, and never too
-- much. `raw` turns a time in ms into the unit of the scores.
local function head(zset, now, raw)
  local bytes = redis.call('MEMORY', 'USAGE', zset, 'SAMPLES', 1)
  if not bytes then return '' end
  if bytes <= 131072 or bytes / redis.call('ZCARD', zset) <= 65536 then
    return redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2]
  end
  local function score(at) return ms(raw(at)) end
  local function none(at) return redis.call('ZCOUNT', zset, '-inf', score(at)) == 0 end
  local step = 2 ^ 42
  while step >= 1 and none(now - step) do step = step / 2 end
  if step >= 1 then return score(now - step) end
  step = 1
  while step < 2 ^ 53 and none(now + step) do step = 2 * step end
  return score(now + math.floor(step / 2) + 1)
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
