-- The last of ARGV is a time (ms): what has gone back and is due before it may be claimed while claims wait to be taken over; or ''.
local BEFORE = table.remove(ARGV)
--#order own
local standby = own(ARGV[1], now, deadline)
if bad then return bad end
if standby then return {'standby', now, ms(standby)} end
-- Whether this version can read the name of a claim: as name.rs does. One that it cannot read is never taken over, and nothing
-- may wait for it.
local NAME = '^1%.' .. string.rep('[0-9a-f]', 16) .. '%.(%d+)%.(%d+)$'
local function readable_name(name)
  local number, expiries = string.match(name, NAME)
  if not number or string.find(number, '^0%d') or string.find(expiries, '^0%d') then return false end
  return tonumber(expiries) <= 65535 and (#number < 20 or #number == 20 and number <= '18446744073709551615')
end
-- What was in flight comes first: nothing else is claimed before claims of this version with leases that are over are taken over.
-- But what may kill the process is taken over when nothing is due before it, and that may have gone back.
local back = BEFORE ~= '' and math.min(most, n_retry, call('ZCOUNT', RETRY, '-inf', '(' .. BEFORE)) or 0
local waiting = false
for i = 1, #expired do
  if readable_name(expired[i]) then waiting = true end
end
-- Behind eight that cannot be read there may be others: of 10,000 more, which take some 5 ms. The daemon reads all of them.
for from = 8, 9008, 1000 do
  if waiting or #expired < 8 then break end
  local rows = call('ZRANGE', LEASES, from, from + 999, 'WITHSCORES')
  if not rows[1] then break end
  for i = 1, #rows, 2 do
    if tonumber(rows[i + 1]) <= now and readable_name(rows[i]) then
      expired[#expired + 1], waiting = rows[i], true
      break
    end
  end
end
if waiting then most = back end
