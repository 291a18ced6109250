-- Functions on jobs that several scripts share. Included after state.lua.

--#include limit.lua
--#include priority.lua

-- Removes the record and the state of a job. Returns 1 if there was a record.
local function forget(id)
  local known = call('HDEL', RECORDS, id)
  call('HDEL', STATE, id)
  call('ZREM', EXPIRY, id)
  return known
end

-- Makes an unreadable job dead as it is: it is shown with its bytes, and waits for a version that can read it.
local function set_aside(id, now)
  call('ZADD', DEAD, ms(now), id)
  call('ZREM', EXPIRY, id)
end

-- Removes the oldest dead jobs beyond `max`, or beyond the limit in the topic's hash: at most 100 a call, so that a
-- lower limit is not one long script.
local function trim_dead(max)
  max = limit(call('HGET', TOPIC, 'dead_max_len'), max)
  if not max then return 0 end
  local over = math.min(call('ZCARD', DEAD) - max, 100)
  if over <= 0 then return 0 end
  local ids = call('ZRANGE', DEAD, 0, over - 1)
  call('ZREM', DEAD, unpack(ids))
  for i = 1, #ids do forget(ids[i]) end
  return over
end

-- Moves a job with state `s` that is no longer reserved: to the dead, back to the due ones, or nowhere. Returns a
-- letter: x past its time to live, d dead, y back. The caller removes it from where it was.
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
  wait_until(id, due, s.priority)
  call('HSET', STATE, id, pack_state(s))
  return 'y'
end

-- The wait after an attempt, as a function: `first`, doubled with each further attempt, and at most `max`. Limits in the
-- topic's hash override both.
local function waits(first, max)
  local set = call('HMGET', TOPIC, 'backoff', 'backoff_max')
  first, max = limit(set[1], first) or 0, limit(set[2], max) or 0
  return function(attempts)
    return math.min(first * 2 ^ math.min(math.max(attempts - 1, 0), 52), max)
  end
end

-- Ends expired reservations, at most `most` of them: each job goes back, due at the end of its time to run and of the wait
-- after it (`first` and `max`), or is dead, gone, or set aside. `counts` is {back, dead, expired, not touched here, set aside}.
local PLACES = {y = 1, d = 2, x = 3, a = 5}
local function come_back(now, most, counts, first, max)
  local rows = call('ZRANGEBYSCORE', RESERVED, '-inf', ms(now), 'WITHSCORES', 'LIMIT', 0, most)
  if not rows[1] then return end
  open()
  local wait = waits(first, max)
  for i = 1, #rows, 2 do
    local id, text, letter = rows[i], call('HGET', STATE, rows[i]), 'x'
    -- Without a record the job was removed by hand.
    if call('HEXISTS', RECORDS, id) == 0 then
      forget(id)
    else
      local s
      if text then
        s = unpack_state(text)
      else
        local record = call('HGET', RECORDS, id)
        s = is_record(record) and fresh(record)
      end
      if s then
        s.reason = 'ttr'
        letter = give_back(id, s, now, tonumber(rows[i + 1]) + wait(s.attempts))
      else
        set_aside(id, now)
        letter = 'a'
      end
    end
    call('ZREM', RESERVED, id)
    local place = PLACES[letter]
    counts[place] = counts[place] + 1
  end
end
