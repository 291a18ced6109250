-- Redisson's half of the gauges.
--
-- Adds {scheduled, due, ready list, score of Z's head, L entries, ghosts, age of the oldest ghost in ms or -1,
--      orphans of the last complete turn}.
local function source_depths()
  local ghosts = redis.call('SCARD', GHOSTS) + redis.call('SCARD', TURN)
  local state = redis.call('HMGET', SWEEP, 'oldest', 'orphans')
  return {redis.call('ZCARD', Z), redis.call('ZCOUNT', Z, '-inf', now), redis.call('LLEN', READY),
    head(Z, now, tonumber), redis.call('LLEN', L), ghosts,
    ghosts > 0 and now - (tonumber(state[1]) or now) or -1, tonumber(state[2]) or 0}
end
