-- Moves what is due into the keys of a claim, under a lease. What the source's programs wrote is not rewritten.
--
-- KEYS 1 leases zset, 2 d and 3 h zset of the claim, 4 retry zset, then those of the source
-- ARGV 1 name of the claim, 2 its owner and number (8 bytes each, for headers), 3 nonce (new for every sending),
--      4 not_after (ms), 5 lease (ms), 6 most elements, 7 most bytes, 8 size of the largest element met lately, 9 a score
--      before which nothing of retry is due, because its head is large, or '', 10 rotation of the places that are claimed from, then those of the source
-- Returns {'late', now} when it ran after not_after; {'twice', now} when this claim ran before, and nothing was done now;
--      else {'ok', now, {element, due time, ...}, {entry, time, ...}, how many of the entries are from retry (the first
--      ones), score and size of retry's head (now and 0 where there is more to take already), names with leases that are
--      over, {newer entries in retry, 1 if something was left because of its size}, what the source adds}.
--
-- Sent twice: the first run has written the lease, which stays until bury removes it after not_after. The second run finds
-- it and answers 'twice'. A claim that takes nothing writes nothing; its second run is a claim of its own.
--
-- The source has these parts, in this order. Each may use what is defined before it.
--   keys    names for its keys, which come from the fifth on
--   look    typed reads that show what it has: sets `offered` (how many may be taken) and `added` (to the reply)
--   quick   may take what is quickly taken, and return the reply: the lease first, all of its own keys that it uses typed
--   check   typed reads of its other keys; `places` (how many may be taken at each of its places) and read_place(place,
--           quota), which reads what is taken by `fits`
--   open    writes that remove nothing, one of each kind that it removes with
--   move    writes: what was read goes to D or H, then away from its place
--   finish  brings `added` up to date
--
-- For a queue in order (order/*.lua), the last of KEYS is the state hash, the last of ARGV is in order/claim.lua, and
-- {'standby', now, time} is returned while another daemon has the order until then.

--#order keys
local LEASES, D, H, RETRY = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
--#source keys
local now, seconds, micros = clock()
if now > tonumber(ARGV[4]) then return {'late', now} end
local most, deadline = tonumber(ARGV[6]), ms(now + tonumber(ARGV[5]))

-- Whether the first two members of a zset are small enough to be read for their scores: reading costs 5 ms per MB, and a
-- head that is not due may be of any size. Redis tells their memory without reading them. nil where there is no such key.
local function small(key)
  local bytes = call('MEMORY', 'USAGE', key, 'SAMPLES', 2)
  if not bytes then return nil end
  if bytes <= 131072 then return true end
  local card = typed(key, 'ZCARD', key)
  return not card or bytes / card <= 65536
end

-- Where the head of a zset is too large: a score before which nothing is due, size -1. Counting tells, and compares bytes
-- only when it meets an element. So the distance doubles until there is one, and a second is far enough.
local function not_before(key, raw)
  local step = 1
  while step <= 1024 and call('ZCOUNT', key, '-inf', ms(raw(now + step))) == 0 do step = 2 * step end
  return ms(raw(now + math.floor(step / 2) + 1)), -1
end

-- What of a zset is due: how many, the first one or two of them, score and size of the first that is not due, if that is
-- known. `till` is in the unit of its scores, and `raw` turns a time into that unit. `large` is a score before which nothing
-- was due, because of a large head, or ''.
local function look(key, till, large, raw)
  if large ~= '' and tonumber(large) > till and typed(key, 'ZCOUNT', key, '-inf', '(' .. large) == 0 then
    return 0, {}, large, -1
  end
  local readable = not bad and small(key)
  if readable == nil or bad then return 0, {}, '', 0 end
  if not readable then
    local due = call('ZCOUNT', key, '-inf', ms(till))
    if due > 0 then return due, {} end
    return 0, {}, not_before(key, raw)
  end
  local rows = typed(key, 'ZRANGE', key, 0, 1, 'WITHSCORES')
  if not rows or not rows[1] then return 0, {}, '', 0 end
  if tonumber(rows[2]) > till then return 0, {}, rows[2], #rows[1] end
  if not rows[3] then return 1, rows, '', 0 end
  if tonumber(rows[4]) > till then return 1, rows, rows[4], #rows[3] end
  return call('ZCOUNT', key, '-inf', ms(till)), rows
end

--#source look
local n_retry, first_retry, retry_score, retry_size = look(RETRY, now, ARGV[9], tonumber)
local expired = typed(LEASES, 'ZRANGE', LEASES, '-inf', ms(now), 'BYSCORE', 'LIMIT', 0, 8)
if bad then return bad end
--#order claim
if offered + n_retry == 0 then
  if call('ZSCORE', LEASES, ARGV[1]) then return {'twice', now} end
  return {'ok', now, {}, {}, 0, retry_score, retry_size, expired, {0, 0}, added}
end

-- Its keys without its lease, because the leases were deleted: what they hold must not be replaced.
if call('EXISTS', D, H) > 0 then return {'twice', now} end

--#source quick

--#include reading.lua
bytes_left, largest = tonumber(ARGV[7]), tonumber(ARGV[8])
local elements, entries, aside, got_retry = {}, {}, {}, 0
--#source check
if bad then return bad end

-- The same share for each place, so that none starves; what one leaves, the others fill. The order rotates.
table.insert(places, 1, n_retry)
local quotas, left, turn = {}, most, tonumber(ARGV[10])
for round = 1, 2 do
  for i = 0, #places - 1 do
    local place = (i + turn) % #places + 1
    local had = quotas[place] or 0
    local quota = math.min(left, places[place] - had, round == 1 and math.ceil(most / #places) or left)
    quotas[place], left = had + quota, left - quota
  end
end
--#order places
for i = 0, #places - 1 do
  local place = (i + turn) % #places + 1
  if quotas[place] > 0 then
    if place == 1 then
      got_retry, entries = read_zset(RETRY, quotas[1], first_retry, aside)
    else
      read_place(place - 1, quotas[place])
    end
  end
end

if taken > 0 or #aside > 0 then
  if got_retry > 0 or #aside > 0 then open(RETRY) end
  --#source open
  -- The lease comes first: a lease without keys is harmless, keys without a lease would never be found.
  if taken > 0 then
    if call('ZADD', LEASES, 'NX', deadline, ARGV[1]) == 0 then return {'twice', now} end
  elseif call('ZSCORE', LEASES, ARGV[1]) then
    return {'twice', now}
  end
  -- A newer daemon's entries are left to it, and do not block those after them. What was taken has the first ranks then.
  for i = 1, #aside do call('ZADD', RETRY, ms(now + 60000), aside[i]) end
  if got_retry > 0 then
    -- By rank: between a read and a removal of one script nothing changes. The first to write H, because this replaces it.
    call('ZRANGESTORE', H, RETRY, 0, got_retry - 1)
    call('ZREMRANGEBYRANK', RETRY, 0, got_retry - 1)
  end
  --#source move
end

-- What may be taken already needs no reading of a head.
local function next_due(key, due, got, score, size, raw)
  if got < due then return ms(raw(now)), 0 end
  if score then return score, size end
  local readable = small(key)
  if readable == nil then return '', 0 end
  if not readable then return not_before(key, raw) end
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return first[2], #first[1]
end
if #aside > 0 then retry_score = nil end
retry_score, retry_size = next_due(RETRY, n_retry, got_retry + #aside, retry_score, retry_size, tonumber)
--#source finish
return {'ok', now, elements, entries, got_retry, retry_score, retry_size, expired, {#aside, short}, added}
