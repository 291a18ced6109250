-- Redisson's half of the gauges.
--
-- Adds {scheduled, due, ready list, score of Z's head, L entries, ghosts, age of the oldest ghost in ms or -1,
--      orphans of the last complete turn, what is ahead}.
local function source_depths()
  local ghosts = redis.call('SCARD', GHOSTS) + redis.call('SCARD', TURN)
  local state = redis.call('HMGET', SWEEP, 'oldest', 'orphans')
  local due = redis.call('ZCOUNT', Z, '-inf', now)
  return {redis.call('ZCARD', Z), due, redis.call('LLEN', READY),
    head(Z, now, tonumber), redis.call('LLEN', L), ghosts,
    ghosts > 0 and now - (tonumber(state[1]) or now) or -1, tonumber(state[2]) or 0,
    ahead({Z}, tonumber, due)}
end
