--#order own
local standby = own(ARGV[2], now, ms(now + tonumber(ARGV[4])))
if bad then return bad end
if standby then return {'nothing', now} end
