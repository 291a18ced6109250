--#order own
local standby = own(ARGV[1], now, deadline)
if bad then return bad end
if standby then return {'standby', now, ms(standby)} end
-- What was in flight comes first: claims of this version with leases that are over are taken over before anything is claimed.
for i = 1, #expired do
  if string.sub(expired[i], 1, 2) == '1.' then
    return {'ok', now, {}, {}, 0, retry_score, retry_size, expired, {0, 0}, added}
  end
end
