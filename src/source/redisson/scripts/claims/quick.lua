-- A trickle: one or two elements near an end of L. What costs then is each command and function that the processor's caches
-- do not hold, 3 to 10 us: so nothing else is looked at.
local exact, probed = ARGV[12] == 'exact', false
if n_z > 0 and n_z <= 2 and n_z <= most and n_ready + n_retry == 0 and not exact
  and (n_z == 1 or #first_z[1] + #first_z[3] <= tonumber(ARGV[7])) then
  local at = {}
  for i = 1, n_z do
    local element = first_z[2 * i - 1]
    at[i] = typed(L, 'LPOS', L, element, 'MAXLEN', 16)
    if bad then return bad end
    if not at[i] then
      at[i] = call('LPOS', L, element, 'RANK', -1, 'MAXLEN', 16) and -1
      if not at[i] then break end
    end
  end
  probed = true
  if at[n_z] then
    open(Z)
    if call('ZADD', LEASES, 'NX', deadline, ARGV[1]) == 0 then return {'twice', now} end
    call('ZRANGESTORE', D, Z, 0, n_z - 1)
    call('ZREMRANGEBYRANK', Z, 0, n_z - 1)
    for i = 1, n_z do
      if at[i] == 0 then
        call('LTRIM', L, 1, -1)
      else
        call('LREM', L, at[i] < 0 and -1 or 1, first_z[2 * i - 1])
      end
    end
    if not z_score then
      local first = call('ZRANGE', Z, 0, 0, 'WITHSCORES')
      added[1], added[2] = first[2] or '', #(first[1] or '')
    end
    if n_z == 1 then first_z = {first_z[1], first_z[2]} end
    return {'ok', now, first_z, {}, 0, retry_score, retry_size, expired, {0, 0}, added}
  end
end
