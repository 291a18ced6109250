-- How elements that were taken out of Z leave L: those of a claim, and those that `rescue` has transferred. An entry of L
-- that is none of them may be of any size, and reading costs 5 ms per MB: entries are read where Redis's memory of L shows
-- that there is no large one, else compared inside of Redis.
--
-- Included behind the removal from Z, with got_z and elements ({element, due time, ...}): what was taken; entries_in_list,
-- ghosts; sweep: oldest, lrem_at and lrem_us of the hash; largest and mean size of the elements; exact; probed: whether the
-- only element was searched at both ends.

if got_z > 0 and entries_in_list > 0 then
  -- Of a recorded ghost the older record goes first: its set is deleted at the end of the turn.
  local function forget(entry)
    -- The second form is that of earlier builds.
    for _, id in ipairs({string.sub(entry, 1, 9), string.sub(entry, 1, 16)}) do
      if call('SREM', TURN, id) == 1 or call('SREM', GHOSTS, id) == 1 then return true end
    end
    return false
  end

  -- Whether this entry is one of those that were taken. Most lists need not know.
  local set
  local function is_taken(entry)
    if not set then
      set = {}
      for i = 1, #elements, 2 do set[elements[i]] = true end
    end
    return set[entry]
  end

  -- Whether this entry at an end of L is a ghost that is not live again; its record is gone then.
  local cut = 0
  local function is_ghost(entry)
    if ghosts == 0 or largest >= 4096 or cut == 64 then return false end
    if not is_taken(entry) and not call('ZSCORE', Z, entry) and forget(entry) then
      ghosts, cut = ghosts - 1, cut + 1
      return true
    end
    return false
  end

  local function trim(n, head)
    if n == 0 then return end
    if head then call('LTRIM', L, n, -1) else call('LTRIM', L, 0, -1 - n) end
    entries_in_list = entries_in_list - n
  end

  -- Recorded ghosts at one end go, where no large entry can be. Of a list Redis tells the memory of its first nodes, 8 KB
  -- of entries or one large one each, times all nodes: so the tail of a long one is left to the sweep.
  local function trim_ghosts(head)
    if ghosts == 0 or largest >= 4096 or entries_in_list == 0 then return end
    if head then
      if call('MEMORY', 'USAGE', L, 'SAMPLES', 64) > entries_in_list * 4096 then return end
    elseif entries_in_list > 1000 or call('MEMORY', 'USAGE', L, 'SAMPLES', 0) > 262144 then
      return
    end
    local run = 0
    while run < 32 do
      local entry = call('LINDEX', L, head and run or -1 - run)
      if not entry or not is_ghost(entry) then break end
      run = run + 1
    end
    trim(run, head)
  end

  -- Cuts the longest run at the head of L in which every entry is one of `wanted` ({element, due time, ...}), in any order,
  -- or a recorded ghost, and takes those just behind it. Returns what was not found, in the same form.
  local function take_run(wanted)
    local found, here = call('LRANGE', L, 0, 3), 0
    if not found[1] then return wanted end
    for i = 1, #found do here = here + (is_taken(found[i]) and 1 or 0) end
    -- Most of the first entries, else the claimed ones are anywhere.
    if here < math.min(3, #found) then return wanted end
    local sought, missing, run, at = {}, #wanted / 2, 0, 1
    for i = 1, #wanted, 2 do sought[wanted[i]] = true end
    while true do
      at = 1
      while found[at] do
        local entry = found[at]
        if sought[entry] then
          sought[entry], missing = nil, missing - 1
        elseif not is_ghost(entry) then
          break
        end
        at = at + 1
      end
      run = run + at - 1
      if found[at] or missing == 0 then break end
      found = call('LRANGE', L, run, run + (run < 64 and 60 or math.min(missing + 16, 500)) - 1)
      if not found[1] then break end
    end
    trim(run, true)
    for i = at + 1, math.min(at + 48, #found) do
      if sought[found[i]] then
        entries_in_list = entries_in_list - call('LREM', L, 1, found[i])
        sought[found[i]], missing = nil, missing - 1
      end
    end
    local left, n = {}, 0
    if missing > 0 then
      for i = 1, #wanted, 2 do
        if sought[wanted[i]] then left[n + 1], left[n + 2], n = wanted[i], wanted[i + 1], n + 2 end
      end
    end
    return left
  end

  -- Takes those of `wanted` out of L that are near one end. A block of them is searched for at a time; the longest run of
  -- what was found, in any order, goes with one LTRIM. Returns what was not found, in the same form.
  local function take_near(wanted, head)
    local gone, missed, first = {}, 0, 1
    -- Elements due in another order than they were offered can be anywhere: after a few misses the end is left.
    while first <= #wanted and missed < 8 do
      -- Elements that are due in the same millisecond are in another order in L, so a block ends with such a group.
      local last = math.min(first + 62, #wanted - 1)
      while last + 2 < #wanted and last - first < 254 and wanted[last + 3] == wanted[last + 1] do last = last + 2 end
      local window, at = (last - first) / 2 + 17, {}
      for i = first, last, 2 do
        if missed == 8 then break end
        local p
        if head then
          p = call('LPOS', L, wanted[i], 'MAXLEN', window)
        else
          p = call('LPOS', L, wanted[i], 'RANK', -1, 'MAXLEN', window)
          if p then p = entries_in_list - 1 - p end
        end
        if p then
          at[p], gone[i], missed = wanted[i], true, 0
        else
          missed = missed + 1
        end
      end
      local run = 0
      while at[run] do
        at[run] = nil
        run = run + 1
      end
      trim(run, head)
      if next(at) then
        for p = run, window - 1 do
          if at[p] then entries_in_list = entries_in_list - call('LREM', L, head and 1 or -1, at[p]) end
        end
      end
      first = last + 2
    end
    if not next(gone) then return wanted end
    local left, n = {}, 0
    for i = 1, #wanted, 2 do
      if not gone[i] then left[n + 1], left[n + 2], n = wanted[i], wanted[i + 1], n + 2 end
    end
    return left
  end

  local function unlist()
    if exact then
      for i = 1, #elements, 2 do call('LREM', L, 1, elements[i]) end
      entries_in_list = call('LLEN', L)
      return
    end
    local left = elements
    if not probed or got_z > 1 then
      trim_ghosts(true)
      trim_ghosts(false)
      -- As many nodes as a run may span.
      local nodes = math.ceil((got_z + 80) * mean / 4096) + 4
      if got_z >= 8 and call('MEMORY', 'USAGE', L, 'SAMPLES', nodes) <= entries_in_list * 2 * mean then
        left = take_run(left)
      end
      if #left > 0 then left = take_near(left, true) end
      if #left > 0 then left = take_near(left, false) end
      if #left == 0 then return end
    end

    -- LREM may use 5 % of Redis's time: a bucket that holds one second's share, in microseconds. One claim takes no more
    -- of it than fits into the 5 ms that a script may hold Redis up. Of many it takes none: one walk of the sweep removes
    -- them all for what the search for a few costs, and a replica need not get each.
    local since = now - (tonumber(sweep[2]) or 0)
    local lrem_us = math.min(50000, (tonumber(sweep[3]) or 50000) + math.max(0, since) * 50)
    local cost, spent, first, few = entries_in_list * 0.036, 0, 1, #left <= 32
    while few and first <= #left and cost < 1000 and cost <= lrem_us and spent + cost <= 2000 do
      entries_in_list = entries_in_list - call('LREM', L, 1, left[first])
      lrem_us, spent, first = lrem_us - cost, spent + cost, first + 2
    end
    if spent > 0 then call('HSET', SWEEP, 'lrem_at', ms(now), 'lrem_us', math.floor(lrem_us)) end
    if first > #left then return end

    -- The rest are recorded. The set cannot distinguish two entries with the same first bytes: that one is searched, at any
    -- cost.
    local ids, new, n, seen = {}, {}, 0, {}
    for i = first, #left, 2 do ids[(i - first) / 2 + 1] = string.sub(left[i], 1, 9) end
    local recorded = call('SMISMEMBER', GHOSTS, unpack(ids))
    for i = 1, #ids do
      local id = ids[i]
      if recorded[i] == 1 or seen[id] then
        entries_in_list = entries_in_list - call('LREM', L, 1, left[first + 2 * i - 2])
      else
        n = n + 1
        new[n], seen[id] = id, true
      end
    end
    if #new > 0 then
      call('SADD', GHOSTS, unpack(new))
      call(ghosts == 0 and 'HSET' or 'HSETNX', SWEEP, 'oldest', ms(now))
      if ghosts == 0 then sweep[1] = now end
      ghosts = ghosts + #new
    end
  end
  unlist()
end
