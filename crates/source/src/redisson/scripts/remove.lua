-- Redisson's half: a scheduled element is in the list too. KEYS 3 L list, 4 ghosts set, 5 sweep hash; the word is the list
-- cleanup, 'auto' or 'exact'. Elements have their payloads, so that equal bytes are different lives.
--
-- An entry that is far from both ends of a long list is recorded for the sweep, as one that a claim leaves there: to search
-- for it would hold Redis up.
local HALF_TYPES = halves > 0 and {'list', 'set', 'hash'} or {}
local function again() return false end
local function drop(element)
  local L, GHOSTS, SWEEP = unpack(KEYS, 3, 5)
  local from_tail = false
  -- 0.036 us for each entry: as long as a claim may search as well.
  if word ~= 'exact' and redis.call('LLEN', L) * 0.036 > 2000 and not redis.call('LPOS', L, element, 'MAXLEN', 20000) then
    from_tail = redis.call('LPOS', L, element, 'RANK', -1, 'MAXLEN', 20000)
    -- The set cannot distinguish two entries with the same first bytes: that one is searched, at any cost.
    if not from_tail and redis.call('SADD', GHOSTS, string.sub(element, 1, 9)) == 1 then
      redis.call('HSETNX', SWEEP, 'oldest', ms(clock()))
      return
    end
  end
  redis.call('LREM', L, from_tail and -1 or 1, element)
end
