-- Shared by the scripts of the job queue: put in front of each, because Redis knows no shared functions. No script starts
-- with a #! line: a Redis that is full refuses such a script as a whole, and a full Redis must be drainable.
--
-- KEYS of every script, all of one topic:
--   1 due zset: id -> due time, ms. A job is in delay while that is in the future, and ready from then on.
--   2 reserved zset: id -> end of its time to run, ms
--   3 records hash: id -> what was added; never changed
--   4 state hash: id -> what changes, from the first reservation on
--   5 dead zset: id -> time of death, ms
--   6 expiry zset: id -> end of its time to live, ms, for jobs that have one and are not dead
--   7 gone zset: id -> until when it is remembered, ms: finished jobs with ids of their clients
--   8 topic hash: `created` (ms), `paused` (1), `exporting` (the job whose copy is on its way)
--
-- A job is in exactly one of 1, 2 and 5, and has a record; or it is gone (R2). record.rs documents records and states byte
-- by byte.

local call = redis.call
local DUE, RESERVED, RECORDS, STATE, DEAD, EXPIRY, GONE, TOPIC = unpack(KEYS)

-- Milliseconds by the clock that decides (R9).
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

local function ms(n)
  return string.format('%.0f', n)
end

-- Redis does not roll a script back. So the type of every key is known to be right before the first write.
local TYPES = {'zset', 'zset', 'hash', 'hash', 'zset', 'zset', 'zset', 'hash'}
local function wrong_type()
  for i = 1, 8 do
    local kind = call('TYPE', KEYS[i]).ok
    if kind ~= TYPES[i] and kind ~= 'none' then
      return redis.error_reply('WRONGKEY ' .. KEYS[i] .. ' holds a ' .. kind .. ', expected a ' .. TYPES[i])
    end
  end
end

-- A full Redis refuses additions until a script has written something: the removal of an empty range is enough, and shows
-- that the user may remove at all. Scripts that only make room, or move what is there, start with it. `add` does not.
local function open()
  call('ZREMRANGEBYRANK', DUE, 1, 0)
  call('ZREMRANGEBYRANK', RESERVED, 1, 0)
end

-- The parts of a state; the token is there while the job is reserved under it, and until it is reserved again.
local function unpack_state(text)
  local own, attempts, tries, ttr, reserved, expires = struct.unpack('<BI4I4I4I8I8', text)
  return {own = own, attempts = attempts, tries = tries, ttr = ttr, reserved = reserved, expires = expires,
    token = string.sub(text, 30, 45), reason = string.sub(text, 46)}
end

local function pack_state(s)
  return struct.pack('<BI4I4I4I8I8', s.own, s.attempts, s.tries, s.ttr, s.reserved, s.expires) .. s.token .. s.reason
end

-- The state of a job that was never reserved.
local NO_TOKEN = string.rep('-', 16)
local function fresh(record)
  local _, own, added, expires, ttr, tries = struct.unpack('<BBI8I8I4I4', record)
  return {own = own, attempts = 0, tries = tries, ttr = ttr, reserved = 0, expires = expires, token = NO_TOKEN, reason = ''}
end

-- The record and what changes of a job that is gone.
local function forget(id)
  call('HDEL', RECORDS, id)
  call('HDEL', STATE, id)
  call('ZREM', EXPIRY, id)
end

-- Dead jobs beyond `max`, the oldest first: at most 100 a call, so that a lower limit is not one long script.
local function trim_dead(max)
  if max == '' then return 0 end
  local over = math.min(call('ZCARD', DEAD) - tonumber(max), 100)
  if over <= 0 then return 0 end
  local ids = call('ZRANGE', DEAD, 0, over - 1)
  call('ZREM', DEAD, unpack(ids))
  for i = 1, #ids do forget(ids[i]) end
  return over
end

-- The state `s` of a job that is not reserved any more goes where it belongs: to the dead, back to the due ones, or nowhere.
-- Answers a letter: x past its time to live, d dead, y back. The caller removes it from where it was.
local function give_back(id, s, now, due)
  if s.expires > 0 and s.expires <= now then
    forget(id)
    return 'x'
  end
  if s.attempts >= s.tries then
    call('ZADD', DEAD, ms(now), id)
    call('HSET', STATE, id, pack_state(s))
    call('ZREM', EXPIRY, id)
    return 'd'
  end
  call('ZADD', DUE, ms(due), id)
  call('HSET', STATE, id, pack_state(s))
  return 'y'
end

-- Reservations that are over, at most `most` of them: each job goes back, as due at the moment when its time ran out, or is
-- dead, or gone. `counts` is {back, dead, expired}.
local function come_back(now, most, counts)
  local rows = call('ZRANGEBYSCORE', RESERVED, '-inf', ms(now), 'WITHSCORES', 'LIMIT', 0, most)
  if not rows[1] then return end
  open()
  for i = 1, #rows, 2 do
    local id, text, letter = rows[i], call('HGET', STATE, rows[i]), 'x'
    -- Without a record it was removed by hand.
    if call('HEXISTS', RECORDS, id) == 0 then
      forget(id)
    else
      local s = text and unpack_state(text) or fresh(call('HGET', RECORDS, id))
      s.reason = 'ttr'
      letter = give_back(id, s, now, tonumber(rows[i + 1]))
    end
    call('ZREM', RESERVED, id)
    local place = letter == 'y' and 1 or letter == 'd' and 2 or 3
    counts[place] = counts[place] + 1
  end
end
