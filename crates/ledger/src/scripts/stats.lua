-- What the gauges of a queue show. Reads only.
--
-- KEYS 1 leases zset, 2 retry zset, 3 dead stream, then those of the source
-- ARGV those of the source
-- Returns {now, leases, retry, dead, what the source adds, ms until Redis deletes a key of the source, -1 if it deletes none}. The
--      source's half defines SOURCE_TYPES and source_depths().
--
-- Sent twice: it reads again.

--#source keys
local bad = wrong_type('zset', 'zset', 'stream', unpack(SOURCE_TYPES))
if bad then return bad end
local now = clock()

-- What is ahead in sorted sets with scores of which `raw` has the unit, and of which `due` members are due: {absurd}, and where
-- anything is not due yet {absurd, due within 1 min, 10 min, 1 h, 6 h, 24 h, due time of the last}. The last member may be large
-- and no command tells its score alone, so it is found by counting: to a second, or to a thousandth of the time until then. A count of
-- none costs nothing, any other compares the members at both ends with themselves: so the search asks near the far end.
local YEAR, Y2001 = 31536000000, 978307199999
local function ahead(zsets, raw, due)
  local function sum(from, to)
    local n = 0
    for i = 1, #zsets do n = n + redis.call('ZCOUNT', zsets[i], from, to) end
    return n
  end
  local function after(time) return sum('(' .. ms(raw(time)), '+inf') end
  local early = due > 0 and sum('-inf', ms(raw(Y2001))) or 0
  -- What is held for its due time is in retry, beyond all clocks.
  early = early + redis.call('ZCOUNT', KEYS[2], ms(2 ^ 53), '+inf')
  local all = -due
  for i = 1, #zsets do all = all + redis.call('ZCARD', zsets[i]) end
  if all <= 0 then return {early} end
  local found, known, past, within = {0}, 0, nil, 0
  for i, time in ipairs({60000, 600000, 3600000, 21600000, 86400000}) do
    if not past then within = within + sum('(' .. ms(raw(now + known)), ms(raw(now + time))) end
    found[i + 1] = within
    if within < all then known = time elseif not past then past = time end
  end
  local far = past and 0 or after(now + YEAR)
  found[1] = early + far
  if not past then
    if far > 0 then known = YEAR end
    past = far > 0 and 2 * YEAR or YEAR
    while far > 0 and past < 2 ^ 52 and after(now + past) > 0 do known, past = past, 2 * past end
  end
  while past - known > 1000 and past - known > past / 1000 do
    local time = math.floor(known + (past - known) * 7 / 8)
    if after(now + time) > 0 then known = time else past = time end
  end
  found[7] = now + past
  return found
end

--#source stats
local left = -1
for i = 4, #KEYS do
  local until_then = redis.call('PTTL', KEYS[i])
  if until_then >= 0 and (left < 0 or until_then < left) then left = until_then end
end
return {now, redis.call('ZCARD', KEYS[1]), redis.call('ZCARD', KEYS[2]), redis.call('XLEN', KEYS[3]), source_depths(), left}
