-- The topic's own hash, behind the due set. A paused topic hands out nothing, also not what waits for a retry.
local TOPIC = KEYS[6]
local paused, held = typed(TOPIC, 'HEXISTS', TOPIC, 'paused'), typed(LEASES, 'ZSCORE', LEASES, ARGV[1])
if bad then return bad end
if paused == 1 then
  if held or call('EXISTS', D, H) > 0 then return {'twice', now} end
  return {'ok', now, {}, {}, 0, '', 0, {}, {0, 0}, {'', 0}}
end
