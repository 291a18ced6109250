-- Shared by the scripts of claims: put in front of each, because Redis knows no shared functions. No script starts with a
-- #! line: a Redis that is full refuses such a script as a whole, and a full Redis must be drainable.

local call = redis.call

-- Milliseconds, and seconds and microseconds as text, by the clock that decides (R9).
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000), t[1], t[2]
end

-- A time in ms, or a score in the unit of the source, as Redis reads it back to the same number.
local function ms(n)
  return string.format('%.17g', n)
end

-- Redis does not roll a script back. So every key is read as what it must be before the first write, and the first read
-- that fails is kept here. The first letter of a command says what it reads.
local READS = {G = 'string', Z = 'zset', L = 'list', S = 'set', H = 'hash', X = 'stream'}
local bad
local function typed(key, command, ...)
  local answer = redis.pcall(command, ...)
  if type(answer) == 'table' and answer.err then
    if not bad then
      bad = answer
      if string.find(answer.err, 'WRONGTYPE', 1, true) then
        local kind = redis.pcall('TYPE', key).ok or 'value of another type'
        bad = redis.error_reply('WRONGKEY ' .. key .. ' holds a ' .. kind .. ', expected a ' .. READS[string.sub(command, 1, 1)])
      end
    end
    return nil
  end
  return answer
end

-- A full Redis refuses additions until a script has written something. The removal of an empty range is enough, and shows
-- that the user may remove at all: a right that is found missing later would leave a move half done. Not ZREM of '': an
-- element of another program may be empty.
local function open(zset)
  call('ZREMRANGEBYRANK', zset, 1, 0)
end
