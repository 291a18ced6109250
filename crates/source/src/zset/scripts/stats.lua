-- The set's half of the gauges.
--
-- ARGV 1 to 3 the unit of scores: as in claims/look.lua
-- Adds {members, due, score of the head, what is ahead}.
local function source_depths()
  local function raw(at) return at * tonumber(ARGV[1]) / tonumber(ARGV[2]) + tonumber(ARGV[3]) end
  local due = redis.call('ZCOUNT', Z, '-inf', string.format('%.17g', raw(now)))
  return {redis.call('ZCARD', Z), due, head(Z, now, raw), ahead({Z}, raw, due)}
end
