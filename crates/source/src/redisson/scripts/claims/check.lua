local entries_in_list, ghosts, sweep = -1, 0, {}
if delayed then
  entries_in_list = typed(L, 'LLEN', L)
  ghosts = (typed(GHOSTS, 'SCARD', GHOSTS) or 0) + (typed(TURN, 'SCARD', TURN) or 0)
  sweep = typed(SWEEP, 'HMGET', SWEEP, 'oldest', 'lrem_at', 'lrem_us')
end
-- Where the ready list is an RBoundedBlockingQueue: how many more its producers may put.
local permits = n_ready > 0 and typed(PERMITS, 'GET', PERMITS)
if permits and not string.find(permits, '^%-?%d+$') then permits = nil end
-- The announcement comes behind the moves: a right that is missing must be known before. Redis 6.2 cannot be asked.
local channel = permits and 'redisson_sc:' .. PERMITS
if channel and not bad and redis.acl_check_cmd and not redis.acl_check_cmd('PUBLISH', channel, '0') then
  bad = redis.error_reply('NOPERM this user may not PUBLISH to ' .. channel)
end
local places, got_z, payloads = {n_ready, n_z}, 0, {}
local function read_place(place, quota)
  if place == 2 then
    got_z, elements = read_zset(Z, quota, first_z)
    return
  end
  read_list(READY, n_ready, quota, payloads)
end
