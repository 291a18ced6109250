-- Moves what is due to in-flight, under a lease.
--
-- KEYS 1 in-flight zset, 2 retry zset, 3 dead stream (only its type: what is claimed may need it), then those of the source
-- ARGV 1 owner (8 bytes), 2 claim number (8 bytes), 3 nonce (new for every sending), 4 not_after (ms), 5 lease (ms),
--      6 most entries, 7 most bytes, 8 'many' or 'alone', 9 score of a head of retry known to be large, or '',
--      10 size of the largest element met lately (0: none), 11 rotation of the places that are claimed from,
--      12 expired entries of a newer version that the last claim met and that this one need not read again,
--      then those of the source
-- Returns {'late', now} when it ran after not_after, else {'ok', now, kinds, members, score and size of retry's head (now
--      and 0 where there is more to take already), {suspects, newer entries in retry, newer entries in in-flight, 1 if
--      something was left because of its size}, what the source adds}.
--      kinds has a letter per member: t retry, e expired, p expired too often to be delivered, o an expired entry of the
--      caller itself, given a new lease (only its header is returned), and the letters of the source.
--
-- The source's half defines SOURCE_TYPES, source_places() (the functions that take, each with a quota) and source_end()
-- (what it adds to the reply). It may use everything that is defined before it.
--
-- Sent twice: the second run takes other entries, which recover finds; not_after bounds how late a lost sending may run.
-- Both runs count places from 1, so that within such a claim only the whole member is a name: never sent again on purpose.

--#source keys
local bad = wrong_type('zset', 'zset', 'stream', unpack(SOURCE_TYPES))
if bad then return bad end
local INFLIGHT, RETRY = KEYS[1], KEYS[2]
local owner, claim, nonce = ARGV[1], ARGV[2], ARGV[3]
local now, micros = clock()
if now > tonumber(ARGV[4]) then return {'late', now} end
open(INFLIGHT)

-- Text, because a number would be formatted for every element.
local deadline = string.format('%.0f', now + tonumber(ARGV[5]))
local most, bytes_left = tonumber(ARGV[6]), tonumber(ARGV[7])
local alone = ARGV[8] == 'alone'
local largest = tonumber(ARGV[10])
local kinds, members, adds = {}, {}, {}
local taken, index, suspects, unknown, newer = 0, 0, 0, 0, 0

-- Follows each removal at once, with nothing between them that can be refused: no element is ever in neither place.
local function flush()
  if #adds > 0 then
    redis.call('ZADD', INFLIGHT, unpack(adds))
    adds = {}
  end
end

-- The fence: a generation that grows at every claim, and a name that no other member has (owner, claim, index).
local function reclaimed(m, expiries)
  index = index + 1
  local generation = struct.unpack('<I4', m, 5)
  return string.sub(m, 1, 4) .. struct.pack('<I4', generation + 1) .. string.sub(m, 9, 12)
    .. struct.pack('<I2', expiries or struct.unpack('<I2', m, 13)) .. string.sub(m, 15, 16)
    .. owner .. claim .. struct.pack('<I4', index) .. string.sub(m, 37)
end

-- A new entry's header, around what differs: origin, owner, claim, index, id and due time.
local new_begin, new_end = MAGIC .. struct.pack('<I2I4I4I2', HEADER, 1, 0, 0), string.rep('\0', 34)

local function take(kind, member, size)
  taken = taken + 1
  bytes_left = bytes_left - size
  kinds[#kinds + 1], members[taken] = kind, member
  adds[#adds + 1], adds[#adds + 2] = deadline, member
end

-- Set when something was left because of its size: there is more to claim at once.
local short = 0

-- Whether one more of this size may be taken behind `ahead` others of `bytes`: at least one always is.
local function fits(size, ahead, bytes)
  local fit = taken + (ahead or 0) == 0 or size <= bytes_left - (bytes or 0)
  if not fit then short = 1 end
  return fit
end

local function next_chunk(quota, last)
  local n = chunk(quota, bytes_left, largest, taken, last)
  if n == 0 then short = 1 end
  return n
end

-- Comes by twice in a claim of many: what it leaves is met twice, and counted once.
local function take_expired(quota)
  local past = tonumber(ARGV[12])
  local skipped, aside, met, last = past, {}, 0, 0
  while quota > 0 do
    local n = alone and 1 or next_chunk(quota, last)
    if n == 0 then return end
    local found = redis.call('ZRANGEBYSCORE', INFLIGHT, '-inf', now, 'LIMIT', skipped, n)
    if #found == 0 then return end
    last = n
    for i = 1, #found do
      local m = found[i]
      if #m > largest then largest = #m end
      if not known(m) then
        skipped, met = skipped + 1, met + 1
        newer = math.max(newer, met)
      elseif string.sub(m, 17, 24) == owner then
        -- Ours: still at work, or its claim's reply was lost; the caller knows which.
        redis.call('ZADD', INFLIGHT, deadline, m)
        taken = taken + 1
        kinds[#kinds + 1], members[taken] = 'o', string.sub(m, 1, HEADER)
        quota = quota - 1
      else
        local expiries = math.min(struct.unpack('<I2', m, 13) + 1, 65535)
        local marked = expiries >= 10
        if not marked and (expiries >= 3) ~= alone then
          skipped = skipped + 1
          if expiries >= 3 then
            aside[#aside + 1] = m
            suspects = math.max(suspects, #aside)
          end
        elseif alone and marked then
          skipped = skipped + 1
        else
          if not fits(#m) then return end
          local member = reclaimed(m, expiries)
          if redis.call('ZSCORE', INFLIGHT, member) then return end
          redis.call('ZREM', INFLIGHT, m)
          take(marked and 'p' or 'e', member, #m)
          flush()
          quota = quota - 1
        end
      end
      if skipped - past >= 100 and not alone or skipped - past >= 1000 then
        -- Each suspect waits for its turn alone. So many would hide what expired after them: they go behind it.
        for k = 1, #aside do redis.call('ZADD', INFLIGHT, now, aside[k]) end
        return
      end
      if quota <= 0 then return end
    end
  end
end

local function take_retry(quota)
  local last = 0
  while quota > 0 do
    local n = next_chunk(quota, last)
    if n == 0 then return end
    last = n
    local found = redis.call('ZRANGEBYSCORE', RETRY, '-inf', now, 'LIMIT', 0, n)
    if #found == 0 then return end
    for i = 1, #found do
      local m = found[i]
      if #m > largest then largest = #m end
      if not known(m) then
        -- A newer daemon's: left to it, without blocking the entries after it.
        unknown, quota = unknown + 1, quota - 1
        redis.call('ZADD', RETRY, now + 60000, m)
      else
        if not fits(#m) then return end
        local member = reclaimed(m)
        if redis.call('ZSCORE', INFLIGHT, member) then return end
        redis.call('ZREM', RETRY, m)
        take('t', member, #m)
        flush()
        quota = quota - 1
      end
    end
  end
end

-- When something falls due next. What may be taken already needs no reading of a head.
local function next_due(zset, large, till)
  if redis.call('ZCOUNT', zset, '-inf', till) > 0 then return string.format('%.0f', now), 0 end
  return head(zset, large)
end

--#source claim

if alone then
  take_expired(1)
else
  local places = {take_expired, take_retry}
  for _, place in ipairs(source_places()) do places[#places + 1] = place end
  -- A quarter for each, so that none starves; what one leaves, the others fill.
  local turn = tonumber(ARGV[11])
  for round = 1, 2 do
    for i = 1, #places do
      local left = most - taken
      if left <= 0 then break end
      local quota = round == 1 and math.min(left, math.ceil(most / 4)) or left
      places[(i + turn) % #places + 1](quota)
    end
  end
end

local added = source_end()
local r_score, r_size = next_due(RETRY, ARGV[9], now)
return {'ok', now, table.concat(kinds), members, r_score, r_size, {suspects, unknown, newer, short}, added}
