-- How an element that was taken out of Z leaves L. Included in the middle of the scripts that take elements, which have
-- set Z, L, GHOSTS, TURN, SWEEP, now, `exact` (list_cleanup: exact), `delayed` (else L is not touched) and `largest`.

local entries = redis.call('LLEN', L)
local lrem_us, lrem_spent, ghosts_left, misses = 0, 0, 0, 0
if delayed and not exact then
  -- LREM may use 5 % of Redis's time: a bucket that holds one second's share, in microseconds.
  local state = redis.call('HMGET', SWEEP, 'lrem_at', 'lrem_us')
  local since = now - (tonumber(state[1]) or 0)
  lrem_us = math.min(50000, (tonumber(state[2]) or 50000) + math.max(0, since) * 50)
end

-- The older record goes first: its set is deleted at the end of the turn, and a twin of this entry that became a ghost
-- behind the sweep must still be recorded then.
local function forget(m)
  local id = string.sub(m, 1, 16)
  return redis.call('SREM', TURN, id) == 1 or redis.call('SREM', GHOSTS, id) == 1
end

-- What a search through L may cost now; nil when it may not be made.
local function search()
  local cost = entries * 0.036
  -- Of a budget that has gathered, one claim takes no more than fits into the 5 ms that a script may hold Redis up.
  return cost < 1000 and cost <= lrem_us and lrem_spent + cost <= 2000 and cost
end

-- Takes an element out of L if that is cheap; whether it did.
local function unlisted(m)
  if exact then
    redis.call('LREM', L, 1, m)
    return true
  end
  -- Elements due in another order than they were offered can be anywhere: after a few misses the ends are skipped.
  if misses < 16 then
    local at = redis.call('LPOS', L, m, 'MAXLEN', 4)
    -- Trimmed, not popped: the answer to a pop is the element, which Lua would read once more (5 ms per MB).
    if at == 0 then redis.call('LTRIM', L, 1, -1) return true end
    if at then redis.call('LREM', L, 1, m) return true end
    if redis.call('LPOS', L, m, 'RANK', -1, 'MAXLEN', 4) then redis.call('LREM', L, -1, m) return true end
    misses = misses + 1
  end
  local cost = search()
  if cost then
    lrem_us, lrem_spent = lrem_us - cost, lrem_spent + cost
    redis.call('LREM', L, 1, m)
    return true
  end
  return false
end

-- Takes elements out of L, and records those as ghosts for which that would cost too much.
local function unlist(gone)
  local left = gone
  if exact or misses < 16 or search() then
    left = {}
    for i = 1, #gone do
      if not unlisted(gone[i]) then left[#left + 1] = gone[i] end
    end
  end
  if #left == 0 then return end
  local ids = {}
  for i = 1, #left do ids[i] = string.sub(left[i], 1, 16) end
  local recorded, new = redis.call('SMISMEMBER', GHOSTS, unpack(ids)), {}
  -- The set cannot distinguish two entries with the same first bytes: that one is searched, at any cost.
  for i = 1, #ids do
    if recorded[i] == 1 then
      redis.call('LREM', L, 1, left[i])
    else
      new[#new + 1] = ids[i]
    end
  end
  local added = #new > 0 and redis.call('SADD', GHOSTS, unpack(new)) or 0
  if added < #new then
    local seen = {}
    for i = 1, #ids do
      if recorded[i] == 0 and seen[ids[i]] then redis.call('LREM', L, 1, left[i]) end
      seen[ids[i]] = true
    end
  end
  ghosts_left = ghosts_left + added
end

-- Ghosts at an end of L are popped, each only if it was recorded and is not live again.
-- Called at the end; answers how many are left.
local function trim_list()
  local ghosts = redis.call('SCARD', GHOSTS) + redis.call('SCARD', TURN)
  if ghosts_left > 0 then
    redis.call(ghosts == ghosts_left and 'HSET' or 'HSETNX', SWEEP, 'oldest', now)
  end
  if ghosts > 0 and delayed and largest < 16384 then
    for _, side in ipairs({'LPOP', 'RPOP'}) do
      for _ = 1, 8 do
        local e = redis.call('LINDEX', L, side == 'LPOP' and 0 or -1)
        if not e or redis.call('ZSCORE', Z, e) or not forget(e) then break end
        redis.call(side, L)
        ghosts = ghosts - 1
      end
    end
  end
  if lrem_spent > 0 then redis.call('HSET', SWEEP, 'lrem_at', now, 'lrem_us', math.floor(lrem_us)) end
  return ghosts
end
