-- Deals with an entry of the list that is not scheduled, and that no claim recorded: schedules it, due now, or records it as
-- a ghost because the element is held elsewhere.
--
-- KEYS 1 Z zset, 2 L list, 3 ghosts set, 4 ghosts-turn set, 5 sweep hash
-- ARGV 1 '1' to repair, 2 the entry, 3 'orphan' to schedule it, or 'ghost', 4 how many entries may be searched, 5 the place
--      where it was seen (from 0)
-- Returns 1 if it is in L, not in Z and not recorded, else 0. In a longer list it is looked for at both ends and around
--      where it was.
--
-- Sent twice: the second run finds it scheduled, or recorded.

local bad = wrong_type('zset', 'list', 'set', 'set', 'hash')
if bad then return bad end
local Z, L, GHOSTS, TURN, SWEEP = unpack(KEYS)
local entry, most, place = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local id = string.sub(entry, 1, 9)
if redis.call('ZSCORE', Z, entry) then return 0 end
for _, set in ipairs({GHOSTS, TURN}) do
  -- The second form is that of earlier builds.
  local recorded = redis.call('SMISMEMBER', set, id, string.sub(entry, 1, 16))
  if recorded[1] == 1 or recorded[2] == 1 then return 0 end
end
local length = redis.call('LLEN', L)
local there = redis.call('LINDEX', L, place) == entry
if not there then
  local ends = length <= most and 0 or math.floor(most / 4)
  there = redis.call('LPOS', L, entry, 'MAXLEN', ends)
  if not there and ends > 0 then there = redis.call('LPOS', L, entry, 'RANK', -1, 'MAXLEN', ends) end
end
if not there then return 0 end
if ARGV[1] ~= '1' then return 1 end
local now = clock()
if ARGV[3] == 'orphan' then
  open(Z)
  redis.call('ZADD', Z, ms(now), entry)
else
  -- Removes nothing: an identity has 9 bytes at most. A full Redis refuses a script if its first write may need memory.
  redis.call('SREM', GHOSTS, 'longer than any identity')
  redis.call('SADD', GHOSTS, id)
  redis.call('HSETNX', SWEEP, 'oldest', ms(now))
end
return 1
