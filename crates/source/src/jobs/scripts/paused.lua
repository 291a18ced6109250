-- The topic's own hash and the order of jobs with a priority, behind the due set. A paused topic hands out nothing, also not
-- what waits for a retry.
local TOPIC, URGENT = KEYS[6], KEYS[7]
local topic, held = typed(TOPIC, 'HMGET', TOPIC, 'paused', 'urgent'), typed(LEASES, 'ZSCORE', LEASES, ARGV[1])
if bad then return bad end
local urgent = topic[2]
if urgent then typed(URGENT, 'ZCARD', URGENT) end
if bad then return bad end
if topic[1] then
  if held or call('EXISTS', D, H) > 0 then return {'twice', now} end
  return {'ok', now, {}, {}, 0, '', 0, {}, {0, 0}, {'', 0}}
end
