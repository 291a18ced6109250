-- Finds the entries of a claim with a lost reply, and gives them a new lease.
--
-- KEYS 1 in-flight zset
-- ARGV 1 owner (8 bytes), 2 claim number (8 bytes), 3 lease (ms), 4 not_after of the lost claim (ms),
--      5 and 6 range of scores to look through, 7 members to skip at the first score, 8 most entries, 9 most bytes,
--      10 size of the largest element met lately (0: none)
-- Returns {'wait', now} while the lost claim may still run, else {'ok', now, members, next first score, next skip,
--      1 when the range is exhausted else 0}. Members keep generation, attempt and id: no other claim had them.
--
-- Sent twice: nothing but deadlines moves. The first run has moved what it found to the end of its own lease, which may
-- lie behind the range: a caller that never got the reply asks again from where it knows it was, with the range up to
-- that time, and drops what it holds already. What it misses comes back to it, or to others, when that lease is over.

local bad = wrong_type('zset')
if bad then return bad end
local INFLIGHT = KEYS[1]
local owner, claim, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local now = clock()
if now <= tonumber(ARGV[4]) then return {'wait', now} end
open(INFLIGHT)

local from, last, skip = ARGV[5], ARGV[6], tonumber(ARGV[7])
local most, bytes_left, largest = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local members, looked = {}, 0
local read = 0
while looked < most do
  local n = chunk(most - looked, bytes_left, largest, looked, read)
  read = n
  if n == 0 then return {'ok', now, members, from, skip, 0} end
  local found = redis.call('ZRANGEBYSCORE', INFLIGHT, from, last, 'WITHSCORES', 'LIMIT', skip, n)
  if #found == 0 then return {'ok', now, members, from, skip, 1} end
  for i = 1, #found, 2 do
    local m, score = found[i], found[i + 1]
    if score ~= from then from, skip = score, 0 end
    looked, bytes_left = looked + 1, bytes_left - #m
    if #m > largest then largest = #m end
    if known(m) and string.sub(m, 17, 32) == owner .. claim then
      members[#members + 1] = m
      redis.call('ZADD', INFLIGHT, now + lease, m)
      if tostring(now + lease) == score then skip = skip + 1 end
    else
      skip = skip + 1
    end
  end
end
return {'ok', now, members, from, skip, 0}
