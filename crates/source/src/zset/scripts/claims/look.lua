-- ARGV 11 a score before which nothing of Z is due, because its head is large, or '', 12 how long ahead of their due times elements of Z are taken (ms),
--      13 to 15 the unit of its scores: what a time in ms is multiplied with, divided by, and what is added then
-- Adds {score and size of Z's head: that of now and 0 where there is more to take already}.
local times, by, more = tonumber(ARGV[13]), tonumber(ARGV[14]), tonumber(ARGV[15])

-- The largest score that is due at a time.
local function raw(at)
  return at * times / by + more
end
local n_z, first_z, z_score, z_size = look(Z, raw(now + tonumber(ARGV[12])), ARGV[11], raw)
local offered, added = n_z, {z_score, z_size}
