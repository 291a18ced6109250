-- What several scripts do with jobs. Included behind state.lua.

--#include limit.lua

-- The record and what changes of a job that is gone. Answers 1 if there was a record.
local function forget(id)
  local known = call('HDEL', RECORDS, id)
  call('HDEL', STATE, id)
  call('ZREM', EXPIRY, id)
  return known
end

-- A job that this version cannot read goes to the dead, as it is: there it is shown with its bytes, and waits for a version that can.
local function set_aside(id, now)
  call('ZADD', DEAD, ms(now), id)
  call('ZREM', EXPIRY, id)
end

-- Dead jobs beyond `max`, or beyond what the topic's hash says, the oldest first: at most 100 a call, so that a lower limit is not one long script.
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
-- dead, or gone, or set aside. `counts` is {back, dead, expired, not touched here, set aside}.
local PLACES = {y = 1, d = 2, x = 3, a = 5}
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
      local s
      if text then
        s = unpack_state(text)
      else
        local record = call('HGET', RECORDS, id)
        s = is_record(record) and fresh(record)
      end
      if s then
        s.reason = 'ttr'
        letter = give_back(id, s, now, tonumber(rows[i + 1]))
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
