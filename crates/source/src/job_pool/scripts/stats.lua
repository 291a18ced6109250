-- The pool's half of the gauges.
--
-- ARGV 1 how many buckets there are, 2 to 4 the unit of scores: as in claims/look.lua
-- Adds {members of all buckets, those that are due, members of the ready lists, score of the first head,
--      what is ahead}.
local function source_depths()
  local function raw(at) return at * tonumber(ARGV[2]) / tonumber(ARGV[3]) + tonumber(ARGV[4]) end
  local till = string.format('%.17g', raw(now))
  local scheduled, due, ready, first = 0, 0, 0, ''
  for _, bucket in ipairs(BUCKETS) do
    scheduled, due = scheduled + redis.call('ZCARD', bucket), due + redis.call('ZCOUNT', bucket, '-inf', till)
    local score = head(bucket, now, raw)
    if score ~= '' and (first == '' or tonumber(score) < tonumber(first)) then first = score end
  end
  for _, list in ipairs(LISTS) do ready = ready + redis.call('LLEN', list) end
  return {scheduled, due, ready, first, ahead(BUCKETS, raw, due)}
end
