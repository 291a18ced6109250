local entries_in_list, ghosts, sweep = -1, 0, {}
if delayed then
  entries_in_list = typed(L, 'LLEN', L)
  ghosts = (typed(GHOSTS, 'SCARD', GHOSTS) or 0) + (typed(TURN, 'SCARD', TURN) or 0)
  sweep = typed(SWEEP, 'HMGET', SWEEP, 'oldest', 'lrem_at', 'lrem_us', 'ends_at')
end
local places, got_z, payloads = {n_ready, n_z}, 0, {}
local function read_place(place, quota)
  if place == 2 then
    got_z, elements = read_zset(Z, quota, first_z)
    return
  end
  -- Of a list Redis tells the memory of all entries only, so those of a long one are read a few at a time.
  local width = 4
  if n_ready <= 1000 then
    local bytes = call('MEMORY', 'USAGE', READY, 'SAMPLES', 0)
    width = bytes <= bytes_left and quota or 1
  end
  while #payloads < quota do
    local found = call('LRANGE', READY, #payloads, math.min(#payloads + width, quota) - 1)
    for i = 1, #found do
      if not fits(#found[i]) then return end
      payloads[#payloads + 1] = found[i]
    end
    if #found == 0 then return end
  end
end
