-- Sets limits of the topic that override the daemons' configuration.
--
-- ARGV name and value of each limit, in its unit or 'none'; '' removes it
-- Returns {now}.
--
-- Repeated: sets the same values.

local now = clock()
typed(TOPIC, 'HLEN')
if bad then return bad end
for i = 1, #ARGV, 2 do
  if ARGV[i + 1] == '' then call('HDEL', TOPIC, ARGV[i]) else call('HSET', TOPIC, ARGV[i], ARGV[i + 1]) end
end
return {now}
