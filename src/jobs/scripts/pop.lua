-- Reserves the jobs that have been due for longest, after those whose time to run is over have come back.
--
-- ARGV 1 not_after (ms), 2 token (new for every call), 3 most jobs, 4 most bytes, 5 time to run (ms) instead of the jobs'
--      own, or '', 6 exact length that the dead are trimmed to, or ''
-- Returns {'late', now} when it ran after not_after; else {'ok', now, {id, record, attempt, tries, time to run, its end,
--      end of the time to live, ...}, due time of the first job that is left or '', end of the first reservation or '',
--      {come back, died, expired, trimmed, without a record}, 1 if the topic is paused}.
--
-- Sent twice: the daemon never does; every call has a token of its own. A call whose reply was lost may have reserved
-- jobs: recover.lua finds them by the token once not_after is over, and their time to run ends in any case.

local now = clock()
if now > tonumber(ARGV[1]) then return {'late', now} end
local wrong = wrong_type()
if wrong then return wrong end

local token, most, bytes, counts = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), {0, 0, 0, 0, 0}
come_back(now, 2 * most + 10, counts)
if counts[2] > 0 then counts[4] = trim_dead(ARGV[6]) end

local jobs, paused = {}, call('HGET', TOPIC, 'paused') and 1 or 0
local ids = paused == 0 and call('ZRANGEBYSCORE', DUE, '-inf', ms(now), 'LIMIT', 0, most) or {}
if ids[1] then
  open()
  -- A body costs about 5 ms per MB to read. So no more are read than may be answered; one is always.
  if #ids > 1 then
    for i = 1, #ids do
      bytes = bytes - call('HSTRLEN', RECORDS, ids[i])
      if bytes < 0 and i > 1 then
        for k = #ids, i, -1 do ids[k] = nil end
        break
      end
    end
  end
  local records, states = call('HMGET', RECORDS, unpack(ids)), call('HMGET', STATE, unpack(ids))
  for i = 1, #ids do
    local id = ids[i]
    if not records[i] then
      forget(id)
      counts[5] = counts[5] + 1
    else
      local s = states[i] and unpack_state(states[i]) or fresh(records[i])
      if s.expires > 0 and s.expires <= now then
        forget(id)
        counts[3] = counts[3] + 1
      else
        if ARGV[5] ~= '' then s.ttr = tonumber(ARGV[5]) end
        s.attempts, s.reserved, s.token = s.attempts + 1, now, token
        local ends, n = ms(now + s.ttr), #jobs
        call('ZADD', RESERVED, ends, id)
        call('HSET', STATE, id, pack_state(s))
        jobs[n + 1], jobs[n + 2], jobs[n + 3], jobs[n + 4] = id, records[i], s.attempts, s.tries
        jobs[n + 5], jobs[n + 6], jobs[n + 7] = s.ttr, ends, s.expires
      end
    end
  end
  call('ZREM', DUE, unpack(ids))
end
local head, over = call('ZRANGE', DUE, 0, 0, 'WITHSCORES'), call('ZRANGE', RESERVED, 0, 0, 'WITHSCORES')
return {'ok', now, jobs, head[2] or '', over[2] or '', counts, paused}
