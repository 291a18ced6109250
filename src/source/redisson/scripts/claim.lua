-- Moves what is due to in-flight, under a lease.
--
-- KEYS 1 Z zset, 2 L list, 3 ready list, 4 in-flight zset, 5 retry zset, 6 ghosts set, 7 ghosts-turn set, 8 state hash,
--      9 dead stream (only looked at: what is claimed may need it)
-- ARGV 1 owner (8 bytes), 2 claim number (8 bytes), 3 nonce (new for every sending), 4 not_after (ms), 5 lease (ms),
--      6 most entries, 7 most bytes, 8 sources ('d', 'r' or 'dr'), 9 list cleanup ('auto' or 'exact'),
--      10 'many' or 'alone', 11 and 12 scores of heads of Z and retry known to be large, or '',
--      13 size of the largest element met lately (0: none), 14 rotation of the sources,
--      15 expired entries of a newer version that the last claim met and that this one need not read again,
--      16 how long ahead of their due time elements of Z are taken (ms)
-- Returns {'late', now} when it ran after not_after, else {'ok', now, kinds, members, score and size of Z's head,
--      score and size of retry's head (now and 0 where there is more to take already), {L entries, ghosts, age of the
--      oldest ghost in ms or -1, suspects, newer entries in retry, newer entries in in-flight, 1 if something was left
--      because of its size}}.
--      kinds has a letter per member: d delayed, r ready, t retry, e expired, p expired too often to be delivered,
--      o an expired entry of the caller itself, given a new lease (only its header is returned).
--
-- Sent twice: the second run takes other entries, which recover finds; not_after bounds how late a lost sending may run.
-- Both runs count places from 1, so that within such a claim only the whole member is a name: never sent again on purpose.

local bad = wrong_type('zset', 'list', 'list', 'zset', 'zset', 'set', 'set', 'hash', 'stream')
if bad then return bad end
local Z, L, READY, INFLIGHT, RETRY, GHOSTS, TURN, STATE = unpack(KEYS)
local owner, claim, nonce = ARGV[1], ARGV[2], ARGV[3]
local now, micros = clock()
if now > tonumber(ARGV[4]) then return {'late', now} end
open(INFLIGHT)

-- What may be taken of Z.
local horizon = string.format('%.0f', now + tonumber(ARGV[16]))
-- Text, because a number would be printed anew for every element.
local deadline = string.format('%.0f', now + tonumber(ARGV[5]))
local most, bytes_left = tonumber(ARGV[6]), tonumber(ARGV[7])
local delayed, ready = string.find(ARGV[8], 'd', 1, true), string.find(ARGV[8], 'r', 1, true)
local exact, alone = ARGV[9] == 'exact', ARGV[10] == 'alone'
local largest = tonumber(ARGV[13])
local kinds, members, adds = {}, {}, {}
local taken, index, suspects, unknown, newer = 0, 0, 0, 0, 0

-- Follows each removal at once: nothing that can be refused stands between, so no element is ever in neither place.
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
  local past = tonumber(ARGV[15])
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
        -- A newer daemon's: left to it, but not in the way of what stands behind.
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

local function take_ready(quota)
  local last = 0
  while quota > 0 do
    local n = next_chunk(quota, last)
    if n == 0 then return end
    last = n
    local found = redis.call('LRANGE', READY, 0, n - 1)
    if #found == 0 then return end
    local got, full = 0, false
    for i = 1, #found do
      local element = found[i]
      if #element > largest then largest = #element end
      if not fits(#element) then full = true break end
      -- 64 bits of a hash over the time, the place in the batch and the nonce: nothing that a resend repeats.
      local hash = redis.sha1hex(micros .. ':' .. (index + 1) .. ':' .. nonce)
      local id = string.gsub(string.sub(hash, 1, 16), '..', function(h) return string.char(tonumber(h, 16)) end)
      index = index + 1
      local member = new_begin .. 'R\0' .. owner .. claim .. struct.pack('<I4c8i8', index, id, now) .. new_end .. element
      if redis.call('ZSCORE', INFLIGHT, member) then full = true break end
      got, quota = got + 1, quota - 1
      take('r', member, #element)
    end
    if got > 0 then
      redis.call('LTRIM', READY, got, -1)
      flush()
    end
    if full then return end
  end
end

--#include list.lua

-- The path of nearly every element. Commands take a chunk at a time: calling one costs as much as what it does for an
-- element. Lua reads every byte of a string that it makes, so only element and member are made. Whether the member is in
-- flight already is not asked: it would be the very same element, put back between two runs of the very same claim.
local call, pack, ceil = redis.call, struct.pack, math.ceil
local begin = new_begin .. 'D\0' .. owner .. claim
local function take_delayed(quota)
  local last = 0
  while quota > 0 do
    local n = next_chunk(quota, last)
    if n == 0 then return end
    last = n
    local found = call('ZRANGEBYSCORE', Z, '-inf', horizon, 'WITHSCORES', 'LIMIT', 0, n)
    local got, gone, bytes, full = 0, {}, 0, false
    for i = 1, #found, 2 do
      local element = found[i]
      local size = #element
      if size > largest then largest = size end
      if not fits(size, got, bytes) then full = true break end
      got, bytes, index = got + 1, bytes + size, index + 1
      local due = ceil(tonumber(found[i + 1]))
      if due > 9e15 then due = 9e15 elseif due < -9e15 then due = -9e15 end
      local member = begin .. pack('<I4I4I4i8', index, 0, 0, due) .. new_end .. element
      gone[got], members[taken + got] = element, member
      adds[2 * got - 1], adds[2 * got] = deadline, member
    end
    if got == 0 then return end
    kinds[#kinds + 1] = string.rep('d', got)
    taken, bytes_left, quota = taken + got, bytes_left - bytes, quota - got
    call('ZREM', Z, unpack(gone))
    flush()
    unlist(gone)
    if full then return end
  end
end

if alone then
  take_expired(1)
else
  local sources = {take_expired, take_retry}
  if ready then sources[#sources + 1] = take_ready end
  if delayed then sources[#sources + 1] = take_delayed end
  -- A quarter for each, so that none starves; what one leaves, the others fill.
  local turn = tonumber(ARGV[14])
  for round = 1, 2 do
    for i = 1, #sources do
      local left = most - taken
      if left <= 0 then break end
      local quota = round == 1 and math.min(left, math.ceil(most / 4)) or left
      sources[(i + turn) % #sources + 1](quota)
    end
  end
end

local ghosts = trim_list()
local oldest = -1
if ghosts > 0 then
  oldest = now - (tonumber(redis.call('HGET', STATE, 'oldest')) or now)
end

-- When something falls due next. What may be taken already needs no reading of a head.
local function next_due(zset, large, till)
  if redis.call('ZCOUNT', zset, '-inf', till) > 0 then return string.format('%.0f', now), 0 end
  return head(zset, large)
end
local z_score, z_size, r_score, r_size = '', 0, '', 0
if delayed then z_score, z_size = next_due(Z, ARGV[11], horizon) end
r_score, r_size = next_due(RETRY, ARGV[12], now)
return {'ok', now, table.concat(kinds), members, z_score, z_size, r_score, r_size,
  {redis.call('LLEN', L), ghosts, oldest, suspects, unknown, newer, short}}
