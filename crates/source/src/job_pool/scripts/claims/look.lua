-- ARGV 11 how many buckets there are, 12 how long ahead of their due times members are taken (ms), 13 to 15 the unit of
--      scores: what a time in ms is multiplied with, divided by, and what is added then
-- Adds {score of the earliest head that is left, '' for none; that of now where there is more to take already}.
local times, by, more = tonumber(ARGV[13]), tonumber(ARGV[14]), tonumber(ARGV[15])

-- The largest score that is due at a time.
local function raw(at)
  return at * times / by + more
end

local due, first_due, scores, sizes, listed, offered = {}, {}, {}, {}, {}, 0
local till = raw(now + tonumber(ARGV[12]))
for b, bucket in ipairs(BUCKETS) do
  due[b], first_due[b], scores[b], sizes[b] = look(bucket, till, '', raw)
  offered = offered + due[b]
end
for l, list in ipairs(LISTS) do
  listed[l] = typed(list, 'LLEN', list) or 0
  offered = offered + listed[l]
end
local function earliest()
  local first = ''
  for b = 1, #BUCKETS do
    if scores[b] and scores[b] ~= '' and (first == '' or tonumber(scores[b]) < tonumber(first)) then first = scores[b] end
  end
  return first
end
local added = {earliest()}
