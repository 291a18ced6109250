-- One step of the rotation that takes ghosts out of L: begins a turn, or moves one slice from the head to the tail.
--
-- KEYS 1 Z zset, 2 L list, 3 ghosts set, 4 ghosts-turn set, 5 sweep hash
-- ARGV 1 sweeper (8 bytes), 2 slice number, or 'begin', 3 most entries, 4 most bytes, 5 largest element met lately,
--      6 age of the oldest ghost that starts a turn (ms), 7 bandwidth (bytes/s), 8 lease of the sweeper (ms),
--      9 '1' to start whatever the budget says (Redis is nearly full), '2' to start even without a ghost (a census)
-- Returns {what, now, slice number to send next, entries left, ghosts removed, orphans seen in this turn}, what being
--      'idle' nothing to do, 'busy' another daemon sweeps, 'stale' that slice was done already, 'begun' a turn is under
--      way, 'slice' one was done, 'done' and it was the last.
--
-- Sent twice: a slice carries its number, so the second is refused as stale; beginning twice answers 'begun' twice, or
-- begins another turn if the first was finished in between and one is due.
-- Every live entry is in L after every call; an entry leaves L only if it is not in Z and its identity was recorded by
-- the claim that left it: an unrecorded entry may be the last copy of an element.

local bad = wrong_type('zset', 'list', 'set', 'set', 'hash')
if bad then return bad end
local Z, L, GHOSTS, TURN, SWEEP = unpack(KEYS)
local me, want = ARGV[1], ARGV[2]
local now = clock()
local state = redis.call('HMGET', SWEEP, 'by', 'until', 'left', 'slice', 'since', 'bytes', 'entries', 'orphans',
  'next_turn', 'oldest', 'first_orphan')
local by, lease_end, left, slice = state[1], tonumber(state[2]) or 0, tonumber(state[3]), tonumber(state[4]) or 0
local since, bytes, entries = tonumber(state[5]) or now, tonumber(state[6]) or 0, tonumber(state[7]) or 0
local orphans, next_turn, oldest = tonumber(state[8]) or 0, tonumber(state[9]) or 0, tonumber(state[10])
local first = state[11]
local lease = tonumber(ARGV[8])

-- A full Redis refuses a script if its first write may need memory. Nothing is removed: an identity has 9 bytes at most, and
-- may well be the empty one.
redis.call('SREM', GHOSTS, 'longer than any identity')

if left and by ~= me and lease_end > now then return {'busy', now, slice, left, 0, orphans} end

if not left then
  local ghosts = redis.call('SCARD', GHOSTS) + redis.call('SCARD', TURN)
  local length = redis.call('LLEN', L)
  local due = ghosts > 0 and (ghosts * 2 > length or now - (oldest or 0) >= tonumber(ARGV[6]))
  if want ~= 'begin' then return {'stale', now, slice, 0, 0, orphans} end
  if ARGV[9] == '2' then due = true elseif ARGV[9] == '1' then due = ghosts > 0 elseif now < next_turn then due = false end
  if not due then return {'idle', now, slice, 0, 0, orphans} end
  -- After a loss of the state, what an earlier turn left is there still: this turn ends it, and the next one takes the rest.
  if redis.call('EXISTS', TURN) == 0 and redis.call('EXISTS', GHOSTS) == 1 then redis.call('RENAME', GHOSTS, TURN) end
  slice = slice + 1
  redis.call('HSET', SWEEP, 'by', me, 'until', now + lease, 'left', length, 'slice', slice, 'since', now, 'bytes', 0,
    'entries', 0, 'orphans', 0)
  redis.call('HDEL', SWEEP, 'first_orphan')
  return {'begun', now, slice, length, 0, 0}
end

if want == 'begin' then
  redis.call('HSET', SWEEP, 'by', me, 'until', now + lease)
  return {'begun', now, slice, left, 0, orphans}
end
if tonumber(want) ~= slice then return {'stale', now, slice, left, 0, orphans} end

-- Live entries are at the tail before they leave the head, so a right that is missing loses none.
local most, bytes_left, largest = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local moved, removed, length, walked = 0, 0, redis.call('LLEN', L), 0

-- Whether a large entry may be among the next `n`. Of a list Redis tells the memory of its first nodes times all nodes. A
-- node has 8 KB of entries, or one larger entry; those that were walked show about how many nodes there are.
local function uneven(n)
  local share = moved == 0 and 1 or math.min(1, walked / moved / 8192)
  local first, nodes = math.ceil(n * share) + 2, math.max(1, length * share)
  local used = redis.call('MEMORY', 'USAGE', L, 'SAMPLES', first)
  return used and used / nodes * first > 2097152
end

-- Which of these identities are recorded; a record, the older first, is for one entry, and is gone then. Those of a set go with
-- one command: by itself, each would cost a replica five times its bytes.
local function forget(ids)
  local is, missing = {}, #ids
  for _, set in ipairs({TURN, GHOSTS}) do
    if missing == 0 then break end
    local recorded, names, used = redis.call('SMISMEMBER', set, unpack(ids)), {}, {}
    for i = 1, #ids do
      if not is[i] and recorded[i] == 1 and not used[ids[i]] then
        is[i], used[ids[i]], missing = true, true, missing - 1
        names[#names + 1] = ids[i]
      end
    end
    if #names > 0 then redis.call('SREM', set, unpack(names)) end
  end
  return is
end

-- The same for a record of an earlier build, which had 16 bytes.
local function forget_earlier(entry)
  local id = string.sub(entry, 1, 16)
  return redis.call('SREM', TURN, id) == 1 or redis.call('SREM', GHOSTS, id) == 1
end

local last = 0
while left > 0 do
  local n = chunk(math.min(left, most - moved), bytes_left, largest, moved, last)
  if n == 0 then break end
  if n > 1 and uneven(n) then n = 1 end
  last = n
  local found = redis.call('LRANGE', L, 0, n - 1)
  if #found == 0 then left = 0 break end
  local scores = redis.call('ZMSCORE', Z, unpack(found))
  local keep, ids, n_ids = {}, {}, 0
  for i = 1, #found do
    if not scores[i] then ids[#ids + 1] = string.sub(found[i], 1, 9) end
  end
  local is_ghost = forget(ids)
  for i = 1, #found do
    local e = found[i]
    if #e > largest then largest = #e end
    bytes_left, bytes, walked = bytes_left - #e, bytes + #e, walked + #e
    if not scores[i] then n_ids = n_ids + 1 end
    local id = ids[n_ids]
    if scores[i] then
      keep[#keep + 1] = e
    elseif is_ghost[n_ids] or forget_earlier(e) then
      removed = removed + 1
    else
      -- What others take out of L meanwhile makes the turn go round further than once: an orphan that comes by again
      -- ends the count.
      if first == id then first = '' end
      if first ~= '' then first, orphans = first or id, orphans + 1 end
      keep[#keep + 1] = e
    end
  end
  if #keep > 0 then redis.call('RPUSH', L, unpack(keep)) end
  redis.call('LTRIM', L, #found, -1)
  moved, left = moved + #found, left - #found
end
entries = entries + moved

if left > 0 then
  redis.call('HSET', SWEEP, 'by', me, 'until', now + lease, 'left', left, 'slice', slice + 1, 'bytes', bytes,
    'entries', entries, 'orphans', orphans)
  if first then redis.call('HSET', SWEEP, 'first_orphan', first) end
  return {'slice', now, slice + 1, left, removed, orphans}
end

-- Entries still recorded here were taken out of L by another client (poll, remove). There may be a million: not DEL, which
-- would free them before it answers.
redis.call('UNLINK', TURN)
-- The share of Redis's time (5 %, at 4 us an entry) and the bandwidth decide when the next turn may start.
local pause = math.max(entries * 0.004 / 0.05, bytes * 1000 / tonumber(ARGV[7]))
redis.call('HDEL', SWEEP, 'by', 'until', 'left', 'bytes', 'entries', 'first_orphan')
redis.call('HSET', SWEEP, 'orphans', orphans, 'next_turn', math.floor(since + pause))
if redis.call('EXISTS', GHOSTS) == 1 then
  redis.call('HSET', SWEEP, 'oldest', since)
else
  redis.call('HDEL', SWEEP, 'oldest')
end
return {'done', now, slice, 0, removed, orphans}
