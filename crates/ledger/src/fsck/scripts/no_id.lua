-- Gives a job that has no id anywhere its id back, due now.
--
-- KEYS 1 the key of the job, then the zsets that ids are in: the first gets it
-- ARGV 1 '1' to repair, 2 the member, or '' if it is not known, 3 the job's field, or '' where its key is a string,
--      4 the score
-- Returns 1 if the job is there and its id is in none of the zsets, else 0.
--
-- Sent twice: the second run finds the id.

local types = {ARGV[3] == '' and 'string' or 'hash'}
for n = 2, #KEYS do types[n] = 'zset' end
local bad = wrong_type(unpack(types))
if bad then return bad end
if ARGV[3] == '' then
  if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
elseif redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
  return 0
end
if ARGV[2] == '' then return 1 end
for n = 2, #KEYS do
  if redis.call('ZSCORE', KEYS[n], ARGV[2]) then return 0 end
end
if ARGV[1] == '1' then
  open(KEYS[2])
  redis.call('ZADD', KEYS[2], ARGV[4], ARGV[2])
end
return 1
