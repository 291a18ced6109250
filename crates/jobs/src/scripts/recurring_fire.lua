-- Fires a recurring job: adds as many of its jobs as there is room for, and sets its next firing: the first that had no room, if any.
--
-- ARGV 1 maximum number of jobs of the topic that are not dead, or '', 2 name of the topic, 3 time to run (ms), 4 tries, 5 time
--      to live (ms, 0 is unlimited) of jobs without their own; limits in the topic's hash override 1 and 3 to 5; 6 name, 7 the
--      firing that was found due (ms), 8 the revision that was read, 9 the next firing (ms), or '' if there is none, 10 the
--      priority of its jobs, then for each job, the earliest first: id, due time (ms)
-- Returns {'y', now, number of added jobs, number of jobs without room, which stay due}; or, with nothing changed, {'n', now} if there is none of this name, or it is paused,
--      has another next firing or another revision, or the firing is not due; or {'full', now, limit}, if there is no room at all.
--
-- Repeated, or by several daemons: the next firing is another one, and the second run returns n. If Redis has fallen back to an
-- older state, a job that is still there, or whose id is remembered, is not added again.

--#include types.lua
--#include limit.lua
--#include priority.lua
--#include recurring.lua
--#include wake.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local name, firing = ARGV[6], tonumber(ARGV[7])
local next_ms, head = call('ZSCORE', FIRINGS, name), definition(ARGV[6])
-- The daemon reads a score in ms, rounded up, and -inf as the first of them.
if not next_ms or math.max(math.ceil(tonumber(next_ms)), -2 ^ 63) ~= firing or firing > now then return {'n', now} end
if not head or head.paused == 1 or head.revision ~= tonumber(ARGV[8]) then return {'n', now} end

local known = call('HMGET', TOPIC, 'max_jobs', 'ttr', 'tries', 'ttl')
local ids, dues = {}, {}
for i = 11, #ARGV, 2 do
  local remembered = call('ZSCORE', GONE, ARGV[i])
  if call('HEXISTS', RECORDS, ARGV[i]) == 0 and not (remembered and tonumber(remembered) > now) then
    ids[#ids + 1], dues[#dues + 1] = ARGV[i], ARGV[i + 1]
  end
end
local most, count = limit(known[1], ARGV[1]), #ids
if most and count > 0 then
  local room = most - (call('HLEN', RECORDS) - call('ZCARD', DEAD))
  if room <= 0 then return {'full', now, most} end
  count = math.min(count, room)
end

if count > 0 then
  local ttr, tries, has_ttl, ttl, n, m = struct.unpack('<I4I4BI8BI2', head.tail)
  if ttr == 0 then ttr = limit(known[2], ARGV[3], 4294967295) or tonumber(ARGV[3]) end
  if tries == 0 then tries = limit(known[3], ARGV[4], 4294967295) or tonumber(ARGV[4]) end
  if has_ttl == 0 then ttl = limit(known[4], ARGV[5]) or 0 end
  local content_type, body = string.sub(head.tail, 21, 20 + n), call('HGET', RECURRING, '=' .. name) or ''
  local priority = tonumber(ARGV[10])
  local expires = ttl > 0 and now + ttl or 0
  local record = struct.pack('<BBI8I8I4I4B', 1, 1, now, expires, ttr, with_priority(tries, priority), n) .. content_type .. body
  local before = call('ZCOUNT', DUE, '-inf', ms(now))
  for i = 1, count do
    wait_until(ids[i], tonumber(dues[i]), priority)
    if expires > 0 then call('ZADD', EXPIRY, ms(expires), ids[i]) end
    call('HSET', RECORDS, ids[i], record)
  end
  -- Wakes consumers of other daemons that wait for the first job.
  if before == 0 then wake(ARGV[2]) end
end
local after = dues[count + 1] or ARGV[9]
if after == '' then call('ZREM', FIRINGS, name) else call('ZADD', FIRINGS, after, name) end
return {'y', now, count, #ids - count}
