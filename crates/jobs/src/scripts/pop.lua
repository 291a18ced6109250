-- Reserves ready jobs, those of a higher priority first and then those that have been due longest, after expired reservations
-- have come back.
--
-- ARGV 1 not_after (ms), 2 token (new for every call), 3 maximum number of jobs, 4 maximum size in bytes, 5 time to run
--      (ms) that replaces the jobs' own, or '', 6 exact length to which the dead jobs are trimmed, or '', 7 wait after a
--      first attempt that ran out (ms), 8 the longest such wait
-- Returns {'late', now} if it ran after not_after; else {'ok', now, {id, record, attempt, tries, time to run, its end,
--      end of the time to live, ...}, due time of the first remaining job or '', end of the first reservation or '',
--      {came back, died, expired, trimmed, set aside, without a record}, 1 if the topic is paused}. Jobs set aside are
--      unreadable for this version: they are dead, with all of their bytes, and do not affect other jobs.
--
-- Repeated: never; every call has a token of its own. A call with a lost reply may have reserved jobs: recover.lua
-- finds them by the token after not_after, and their time to run ends in any case.

--#include state.lua
-- Rare work: reservations and times to live that have ended. It may write any key.
local function aged()
  --#include types.lua
  --#include moves.lua
  return wrong_type(), forget, set_aside, trim_dead, come_back
end

local now = clock()
if now > tonumber(ARGV[1]) then return {'late', now} end
local token, most, bytes, counts = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), {0, 0, 0, 0, 0, 0}

local over = typed(RESERVED, 'ZRANGE', 0, 0, 'WITHSCORES')
local topic = typed(TOPIC, 'HMGET', 'paused', 'urgent')
if bad then return bad end
if over[1] and tonumber(over[2]) <= now then
  local wrong, _, _, trim_dead, come_back = aged()
  if wrong then return wrong end
  come_back(now, 2 * most + 10, counts, ARGV[7], ARGV[8])
  if counts[2] > 0 then counts[4] = trim_dead(ARGV[6]) end
  if counts[1] > 0 then topic = call('HMGET', TOPIC, 'paused', 'urgent') end
  over = call('ZRANGE', RESERVED, 0, 0, 'WITHSCORES')
end

local paused, ids, taken = topic[1] and 1 or 0, {}, {}
-- Whether no more may be taken after `id`. Reading a body costs about 5 ms per MB, so no more are read than may be
-- returned; one always is.
local function is_full(id)
  if #ids == most then return true end
  if most > 1 then bytes = bytes - (typed(RECORDS, 'HSTRLEN', id) or 0) end
  return bytes < 0 and ids[1]
end

local full, left = false, {}
if topic[2] and paused == 0 then
  --#include urgent.lua
  full = take_urgent(left)
end

-- By rank, which costs a third of a range by score. One extra entry shows when the next job is due.
local last = most
if most > 1 then last = math.min(most, typed(DUE, 'ZCOUNT', '-inf', ms(now)) or 0) end
local rows = typed(DUE, 'ZRANGE', 0, last, 'WITHSCORES')
if bad then return bad end
local jobs, next_due = {}, rows[2]
if paused == 0 then
  for i = 1, #rows, 2 do
    if taken[rows[i]] then
      next_due = nil
    else
      next_due = rows[i + 1]
      if tonumber(next_due) > now or full or is_full(rows[i]) then break end
      ids[#ids + 1], next_due = rows[i], nil
    end
  end
end
if ids[1] then
  local records, states = typed(RECORDS, 'HMGET', unpack(ids)), typed(STATE, 'HMGET', unpack(ids))
  if bad then return bad end
  local reserved, changed, gone, aside, first_end = {}, {}, {}, {}, over[1] and tonumber(over[2])
  for i = 1, #ids do
    local id, record, text = ids[i], records[i], states[i]
    local s
    -- Nothing is reserved before all have been checked.
    if record and is_record(record) and is_id(id) then
      if text then s = unpack_state(text) else s = fresh(record) end
    end
    if not record then
      gone[#gone + 1], counts[6] = id, counts[6] + 1
    elseif not s then
      aside[#aside + 1], counts[5] = id, counts[5] + 1
    elseif s.expires > 0 and s.expires <= now then
      gone[#gone + 1], counts[3] = id, counts[3] + 1
    else
      if ARGV[5] ~= '' then s.ttr = tonumber(ARGV[5]) end
      s.attempts, s.reserved, s.token = s.attempts + 1, now, token
      local ends, r, n = now + s.ttr, #reserved, #jobs
      if not first_end or ends < first_end then first_end = ends end
      reserved[r + 1], reserved[r + 2] = ms(ends), id
      changed[r + 1], changed[r + 2] = id, pack_state(s)
      jobs[n + 1], jobs[n + 2], jobs[n + 3], jobs[n + 4] = id, record, s.attempts, s.tries
      jobs[n + 5], jobs[n + 6], jobs[n + 7] = s.ttr, ms(ends), s.expires
    end
  end
  local forget, set_aside
  if gone[1] or aside[1] then
    local wrong
    wrong, forget, set_aside = aged()
    if wrong then return wrong end
  end
  open()
  if reserved[1] then
    call('ZADD', RESERVED, unpack(reserved))
    call('HSET', STATE, unpack(changed))
    over = {'', ms(first_end)}
  end
  for i = 1, #aside do set_aside(aside[i], now) end
  call('ZREM', DUE, unpack(ids))
  if topic[2] then call('ZREM', URGENT, unpack(ids)) end
  for i = 1, #gone do forget(gone[i]) end
end
if left[1] then call('ZREM', URGENT, unpack(left)) end
return {'ok', now, jobs, next_due or '', over[2] or '', counts, paused}
