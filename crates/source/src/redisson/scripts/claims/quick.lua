-- A trickle: one element, or a few small ones, near an end of L. What costs then is each command and function that the
-- processor's caches do not hold, 3 to 10 us: so nothing else is looked at.
local exact, probed = ARGV[12] == 'exact', false
if n_z > 0 and n_z <= 8 and n_z <= most and n_ready + n_retry == 0 and not exact then
  -- Several are read with the head behind them, where Redis's memory of all of these shows that none is large.
  local rows, bytes = first_z, 0
  if n_z > 1 then
    local count = z_score and n_z or n_z + 1
    if count > 2 then
      local memory = call('MEMORY', 'USAGE', Z, 'SAMPLES', count) / call('ZCARD', Z) * count
      rows = memory <= 65536 and call('ZRANGE', Z, 0, count - 1, 'WITHSCORES') or {}
    end
    for i = 1, #rows, 2 do bytes = bytes + #rows[i] end
    if not rows[1] or bytes > tonumber(ARGV[7]) then rows = {} end
  end
  -- Where each is in L: how many entries are before it, or -1 for those near the tail.
  local places, at_head, found = {}, {}, 0
  while rows[1] and found < n_z do
    local element = rows[2 * found + 1]
    local place = typed(L, 'LPOS', L, element, 'MAXLEN', 16)
    if bad then return bad end
    if place then
      at_head[place] = true
    else
      place = call('LPOS', L, element, 'RANK', -1, 'MAXLEN', 16) and -1
      if not place then break end
    end
    found = found + 1
    places[found] = place
  end
  probed = n_z == 1 and rows[1] ~= nil
  if found == n_z then
    open(Z)
    if call('ZADD', LEASES, 'NX', deadline, ARGV[1]) == 0 then return {'twice', now} end
    call('ZRANGESTORE', D, Z, 0, n_z - 1)
    call('ZREMRANGEBYRANK', Z, 0, n_z - 1)
    -- The run at the head goes at once.
    local run = 0
    while at_head[run] do run = run + 1 end
    if run > 0 then call('LTRIM', L, run, -1) end
    for i = 1, n_z do
      if places[i] < 0 or places[i] > run then call('LREM', L, places[i] < 0 and -1 or 1, rows[2 * i - 1]) end
    end
    if not z_score then added[1], added[2] = rows[2 * n_z + 2] or '', #(rows[2 * n_z + 1] or '') end
    for i = #rows, 2 * n_z + 1, -1 do rows[i] = nil end
    return {'ok', now, rows, {}, 0, retry_score, retry_size, expired, {0, 0}, added}
  end
end
