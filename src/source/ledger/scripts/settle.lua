-- Writes the verdicts of a batch; each names the exact member, so that only its owner's present claim is touched (R3).
--
-- KEYS 1 in-flight zset, 2 retry zset, 3 dead stream, 4 the destination list of exactly-once pushes (if any)
-- ARGV 1 exact length that the dead stream is trimmed to, or '', then a sequence of verdicts:
--      'c' member                              confirmed: removed (beside others; confirmations alone are one ZREM)
--      't' member header delay                 retry: to the retry zset, `delay` ms from now, under the new header
--      'r' member header at                    release: to the retry zset at the absolute time `at`, under the new header
--      'p' member header                       progress: the new header, the lease runs on
--      'd' member n field value ...            dead: n fields and values to the dead stream, removed
--      'x' member side body                    exactly once: removed and pushed to KEYS[4], side 'l' or 'r'
-- Returns {now, answers, dead letters trimmed away}: a letter per verdict: y done, a already done before, n not the
--      caller's any more, w the destination is no list (nothing was changed).
--
-- Sent twice: the second run finds its members gone and answers n, or a where the new member is there to be seen. No
-- member ever comes back under its old name: a claim gives it another owner, claim or place.

local bad = wrong_type('zset', 'zset', 'stream')
if bad then return bad end
local INFLIGHT, RETRY, DEAD, LIST = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now = clock()
open(INFLIGHT)

-- Additions come before removals: one that is refused (a missing right) ends the script with the element still in flight.
local list_ok = true
if LIST then
  local kind = redis.call('TYPE', LIST).ok
  list_ok = kind == 'list' or kind == 'none'
end

local answers, i, deaths = {}, 2, 0
while i <= #ARGV do
  local verdict, m = ARGV[i], ARGV[i + 1]
  local score = redis.call('ZSCORE', INFLIGHT, m)
  if verdict == 'c' then
    i = i + 2
    redis.call('ZREM', INFLIGHT, m)
    answers[#answers + 1] = score and 'y' or 'n'
  elseif verdict == 't' or verdict == 'r' then
    local new = ARGV[i + 2] .. string.sub(m, struct.unpack('<I2', m, 3) + 1)
    local at = tonumber(ARGV[i + 3])
    if verdict == 't' then at = now + at end
    i = i + 4
    if score then
      redis.call('ZADD', RETRY, at, new)
      redis.call('ZREM', INFLIGHT, m)
      answers[#answers + 1] = 'y'
    else
      answers[#answers + 1] = redis.call('ZSCORE', RETRY, new) and 'a' or 'n'
    end
  elseif verdict == 'p' then
    local new = ARGV[i + 2] .. string.sub(m, struct.unpack('<I2', m, 3) + 1)
    i = i + 3
    if score then
      redis.call('ZREM', INFLIGHT, m)
      redis.call('ZADD', INFLIGHT, score, new)
      answers[#answers + 1] = 'y'
    else
      answers[#answers + 1] = redis.call('ZSCORE', INFLIGHT, new) and 'a' or 'n'
    end
  elseif verdict == 'd' then
    local n = tonumber(ARGV[i + 2])
    if score then
      redis.call('XADD', DEAD, '*', unpack(ARGV, i + 3, i + 2 + n))
      redis.call('ZREM', INFLIGHT, m)
      deaths = deaths + 1
      answers[#answers + 1] = 'y'
    else
      answers[#answers + 1] = 'n'
    end
    i = i + 3 + n
  else
    local side, body = ARGV[i + 2], ARGV[i + 3]
    i = i + 4
    if not list_ok then
      answers[#answers + 1] = 'w'
    elseif score then
      redis.call(side == 'l' and 'LPUSH' or 'RPUSH', LIST, body)
      redis.call('ZREM', INFLIGHT, m)
      answers[#answers + 1] = 'y'
    else
      answers[#answers + 1] = 'n'
    end
  end
end
local trimmed = 0
if deaths > 0 and ARGV[1] ~= '' then trimmed = redis.call('XTRIM', DEAD, 'MAXLEN', ARGV[1]) end
return {now, table.concat(answers), trimmed}
