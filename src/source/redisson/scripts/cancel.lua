-- Removes one element that is scheduled; one in flight is left to its owner.
--
-- KEYS 1 Z zset, 2 L list, 3 ghosts set, 4 sweep hash
-- ARGV 1 the exact element, 2 list cleanup ('auto' or 'exact')
-- Returns 1 when it was removed, 0 when it was not there.
--
-- Sent twice: the second run finds nothing, unless the very same bytes were offered again in between.
--
-- An entry that is far from both ends of a long list is recorded for the sweep, as one that a claim leaves there: to search
-- for it would hold Redis up.

local bad = wrong_type('zset', 'list', 'set', 'hash')
if bad then return bad end
local Z, L, GHOSTS, SWEEP = unpack(KEYS)
local element, from_tail = ARGV[1], false
if not redis.call('ZSCORE', Z, element) then return 0 end

-- 0.036 us for each entry: as long as a claim may search as well.
if ARGV[2] ~= 'exact' and redis.call('LLEN', L) * 0.036 > 2000 and not redis.call('LPOS', L, element, 'MAXLEN', 20000) then
  from_tail = redis.call('LPOS', L, element, 'RANK', -1, 'MAXLEN', 20000)
  if not from_tail then
    open(Z)
    -- The set cannot distinguish two entries with the same first bytes: that one is searched, at any cost.
    if redis.call('SADD', GHOSTS, string.sub(element, 1, 16)) == 1 then
      redis.call('HSETNX', SWEEP, 'oldest', ms(clock()))
      return redis.call('ZREM', Z, element)
    end
  end
end
redis.call('ZREM', Z, element)
redis.call('LREM', L, from_tail and -1 or 1, element)
return 1
