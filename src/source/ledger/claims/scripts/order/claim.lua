--#order own
local standby = own(ARGV[1], now, deadline)
if bad then return bad end
if standby then return {'standby', now, ms(standby)} end
-- What was in flight comes first: nothing is claimed before claims of this version with leases that are over are taken over.
for i = 1, #expired do
  if string.sub(expired[i], 1, 2) == '1.' then most = 0 end
end
