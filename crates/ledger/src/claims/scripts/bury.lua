-- Removes the leases of claims that hold nothing, and that nothing can fill any more.
--
-- KEYS 1 leases zset, then d and h zset of each claim
-- ARGV 1 the latest not_after of the claims (ms), then their names
-- Returns {'wait', now} until that time is over: a claim may still run. Else {'ok', now, letters}: a letter for each name:
--      y its lease is gone, k it holds something and keeps its lease.
--
-- Sent twice: what is gone is gone.

local LEASES = KEYS[1]
local now = clock()
if now <= tonumber(ARGV[1]) then return {'wait', now} end
typed(LEASES, 'ZCARD', LEASES)
if bad then return bad end
local answers, names = {}, {}
for i = 2, #ARGV do
  if call('EXISTS', KEYS[2 * i - 2], KEYS[2 * i - 1]) > 0 then
    answers[i - 1] = 'k'
  else
    answers[i - 1] = 'y'
    names[#names + 1] = ARGV[i]
  end
end
for first = 1, #names, 5000 do call('ZREM', LEASES, unpack(names, first, math.min(first + 4999, #names))) end
return {'ok', now, table.concat(answers)}
