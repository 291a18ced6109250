local entries_in_list, ghosts, sweep = -1, 0, {}
if delayed then
  entries_in_list = typed(L, 'LLEN', L)
  ghosts = (typed(GHOSTS, 'SCARD', GHOSTS) or 0) + (typed(TURN, 'SCARD', TURN) or 0)
  sweep = typed(SWEEP, 'HMGET', SWEEP, 'oldest', 'lrem_at', 'lrem_us')
end
-- Where the ready list is an RBoundedBlockingQueue: how many more its producers may put.
local permits = n_ready > 0 and typed(PERMITS, 'GET', PERMITS)
if permits and not string.find(permits, '^%-?%d+$') then permits = nil end
local places, got_z, payloads = {n_ready, n_z}, 0, {}
local function read_place(place, quota)
  if place == 2 then
    got_z, elements = read_zset(Z, quota, first_z)
    return
  end
  read_list(READY, n_ready, quota, payloads)
end
