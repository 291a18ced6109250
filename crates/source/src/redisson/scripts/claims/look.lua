-- ARGV 11 what is consumed ('d', 'r' or 'dr'), 12 list cleanup ('auto' or 'exact'), 13 a score before which nothing of
--      Z is due, because its head is large, or '', 14 how long ahead of their due times elements of Z are taken (ms)
-- Adds {score and size of Z's head (now and 0 where there is more to take already), L entries, ghosts, age of the oldest
--      ghost in ms or -1}; -1 for all three where L was not looked at.
local delayed, ready = ARGV[11] ~= 'r', ARGV[11] ~= 'd'
local n_z, first_z, z_score, z_size, n_ready = 0, {}, '', 0, 0
if delayed then n_z, first_z, z_score, z_size = look(Z, now + tonumber(ARGV[14]), ARGV[13], tonumber) end
if ready then n_ready = typed(READY, 'LLEN', READY) or 0 end
local offered, added = n_z + n_ready, {z_score, z_size, -1, -1, -1}
