-- Sets limits of the topic, in place of those that the daemons were configured with.
--
-- ARGV name and value of each limit, in its unit or 'none'; '' removes it
-- Returns {now}.
--
-- Sent twice: it sets the same.

local now = clock()
typed(TOPIC, 'HLEN')
if bad then return bad end
for i = 1, #ARGV, 2 do
  if ARGV[i + 1] == '' then call('HDEL', TOPIC, ARGV[i]) else call('HSET', TOPIC, ARGV[i], ARGV[i + 1]) end
end
return {now}
