-- Moves the ends of leases that are still the caller's. After a lost reply it says whether the claim has run.
--
-- KEYS 1 leases zset
-- ARGV 1 not_after (ms), 2 lease (ms), then names of claims
-- Returns {'late', now} when it ran after not_after, and nothing was done; else {'ok', now, letters}: a letter for each name:
--      y extended, n not the caller's any more.
--
-- Sent twice: an end moves twice; of what is not the caller's any more, none. Held up on its way it does nothing: what its
-- sender has left to a lease since is free when that lease is over.

-- For a queue in order, the last of KEYS is the state hash: nothing is the caller's once another daemon has had the order.

--#order keys
local LEASES = KEYS[1]
local now = clock()
if now > tonumber(ARGV[1]) then return {'late', now} end
local deadline, answers = ms(now + tonumber(ARGV[2])), {}
--#order extend
-- Lua unpacks some 8,000 values at most.
for first = 3, #ARGV, 2000 do
  local last, adds = math.min(first + 1999, #ARGV), {}
  local ends = typed(LEASES, 'ZMSCORE', LEASES, unpack(ARGV, first, last))
  if bad then return bad end
  for i = first, last do
    local held = ends[i - first + 1]
    answers[i - 2] = held and 'y' or 'n'
    if held then adds[#adds + 1], adds[#adds + 2] = deadline, ARGV[i] end
  end
  if #adds > 0 then
    open(LEASES)
    call('ZADD', LEASES, 'XX', unpack(adds))
  end
end
return {'ok', now, table.concat(answers)}
