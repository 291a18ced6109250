if got_z > 0 then
  call('ZRANGESTORE', D, Z, 0, got_z - 1)
  call('ZREMRANGEBYRANK', Z, 0, got_z - 1)
end
if #payloads > 0 then
  --#include headers.lua
  add_with_headers(payloads)
  call('LTRIM', READY, #payloads, -1)
  -- As Redisson's own poll() does: else its producers wait in put() for ever.
  if permits then
    local free = call('INCRBY', PERMITS, #payloads)
    redis.pcall('PUBLISH', channel, free)
    -- In a cluster, Redisson's clients listen to the channel of the shard; Redis 6.2 has none.
    if redis.acl_check_cmd and redis.acl_check_cmd('SPUBLISH', channel, free) then call('SPUBLISH', channel, free) end
  end
end
