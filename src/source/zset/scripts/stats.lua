-- The set's half of the gauges.
--
-- ARGV 1 score of a head known to be large, or '', 2 to 4 the unit of scores: as in claims/look.lua
-- Adds {members, due, score and size of the head}.
local function source_depths()
  local till = now * tonumber(ARGV[2]) / tonumber(ARGV[3]) + tonumber(ARGV[4])
  local score, size = head(Z, ARGV[1])
  return {redis.call('ZCARD', Z), redis.call('ZCOUNT', Z, '-inf', string.format('%.17g', till)), score, size}
end
