-- Removes the id of a job that is not there.
--
-- KEYS 1 the zset with the id, 2 the key of the job
-- ARGV 1 '1' to repair, 2 the member, 3 the job's field, or '' where its key is a string
-- Returns 1 if the member is there and the job is not, else 0.
--
-- Sent twice: the second run finds no member.

local bad = wrong_type('zset')
if bad then return bad end
local kind = redis.call('TYPE', KEYS[2]).ok
if not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
if ARGV[3] == '' then
  if kind ~= 'none' then return 0 end
elseif kind ~= 'none' and (kind ~= 'hash' or redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1) then
  return 0
end
if ARGV[1] == '1' then redis.call('ZREM', KEYS[1], ARGV[2]) end
return 1
