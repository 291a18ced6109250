-- Takes an element that waits out of its queue: for good, or to the dead letters.
--
-- KEYS 1 the sorted set that it is in, 2 dead stream, then those of the source's half, then the key of its body and those of
--      what goes with the body
-- ARGV 1 the exact member, 2 the score that it was seen with, or '' for any, 3 's' an element of the source, 'r' an entry that
--      waits for a retry, 4 how many of KEYS are those of the source's half, 5 a word for that half, 6 n, then n fields and
--      values of the dead letter (0: for good); and with a body: its place in KEYS, the hash of lives being behind it,
--      's', 'f' or 'o', its field, the SHA-1 that it
--      must have, or '' for any, m, and m times `what place name ms`: as in settle.lua
-- Returns y removed, n it is not there, c it has another score, or is scheduled once more, b it has another body. Only y has
--      changed something.
--
-- Sent twice: the second run finds nothing, and answers n, unless the very same bytes were offered again in between.
--
-- The source's half defines HALF_TYPES, the types of its keys; again(element), whether the element of an entry is scheduled
-- too; drop(element), which takes what else there is of a scheduled element.

local halves, word = tonumber(ARGV[4]), ARGV[5]
local Z, DEAD, member = KEYS[1], KEYS[2], ARGV[1]
--#source remove
local bad = wrong_type('zset', 'stream', unpack(HALF_TYPES))
if bad then return bad end
local score = redis.call('ZSCORE', Z, member)
if not score then return 'n' end
if ARGV[2] ~= '' and tonumber(score) ~= tonumber(ARGV[2]) then return 'c' end
local element = member
if ARGV[3] == 'r' then
  if known(member) then element = string.sub(member, struct.unpack('<I2', member, 3) + 1) end
  if again(element) then return 'c' end
end

local n = tonumber(ARGV[6])
local b = 7 + n
local kind, key, field = ARGV[b + 1], ARGV[b] and KEYS[tonumber(ARGV[b])], ARGV[b + 2]
if key and ARGV[b + 3] ~= '' then
  local body
  if kind == 's' then body = redis.pcall('GET', key) else body = redis.pcall('HGET', key, field) end
  if type(body) ~= 'string' or redis.sha1hex(body) ~= ARGV[b + 3] then return 'b' end
end

-- What a missing right could refuse comes before the removal from Z, of which this shows that it is allowed: an element
-- that is not removed in the end has lost nothing that its delivery needs.
open(Z)
if ARGV[3] == 's' then drop(element) end
if n > 0 then redis.call('XADD', DEAD, '*', unpack(ARGV, 7, 6 + n)) end
redis.call('ZREM', Z, member)
-- A retry is a life of its element, and the body belongs to all of them.
if key and ARGV[3] == 'r' then
  local lives = KEYS[tonumber(ARGV[b]) + 1]
  if redis.call('HINCRBY', lives, 'n' .. element, -1) > 0 then return 'y' end
  redis.call('HDEL', lives, 'n' .. element, 'b' .. element)
end
if key then
  -- A body that stays is left over, and nothing is lost.
  if kind == 'f' then redis.pcall('HDEL', key, field) else redis.pcall('UNLINK', key) end
  for at = b + 5, b + 1 + 4 * tonumber(ARGV[b + 4]), 4 do
    local what, beside, name = ARGV[at], KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2]
    if what == 'u' then
      redis.pcall('UNLINK', beside)
    elseif what == 'h' then
      redis.pcall('HDEL', beside, name)
    elseif what == 'z' then
      redis.pcall('ZREM', beside, name)
    else
      redis.pcall('ZADD', beside, ms(clock() + tonumber(ARGV[at + 3])), name)
    end
  end
end
return 'y'
