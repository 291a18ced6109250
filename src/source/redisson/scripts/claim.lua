-- Redisson's half of a claim: elements of Z, and what its clients have moved to the ready list.
--
-- ARGV 13 what is consumed ('d', 'r' or 'dr'), 14 list cleanup ('auto' or 'exact'), 15 score of a head of Z known to be
--      large, or '', 16 how long ahead of their due time elements of Z are taken (ms)
-- Adds {score and size of Z's head (now and 0 where there is more to take already), L entries, ghosts, age of the oldest
--      ghost in ms or -1}. Letters: d delayed, r ready.

local function take_ready(quota)
  local last = 0
  while quota > 0 do
    local n = next_chunk(quota, last)
    if n == 0 then return end
    last = n
    local found = redis.call('LRANGE', READY, 0, n - 1)
    if #found == 0 then return end
    local got, full = 0, false
    for i = 1, #found do
      local element = found[i]
      if #element > largest then largest = #element end
      if not fits(#element) then full = true break end
      -- 64 bits of a hash over the time, the place in the batch and the nonce: nothing that a resend repeats.
      local hash = redis.sha1hex(micros .. ':' .. (index + 1) .. ':' .. nonce)
      local id = string.gsub(string.sub(hash, 1, 16), '..', function(h) return string.char(tonumber(h, 16)) end)
      index = index + 1
      local member = new_begin .. 'R\0' .. owner .. claim .. struct.pack('<I4c8i8', index, id, now) .. new_end .. element
      if redis.call('ZSCORE', INFLIGHT, member) then full = true break end
      got, quota = got + 1, quota - 1
      take('r', member, #element)
    end
    if got > 0 then
      redis.call('LTRIM', READY, got, -1)
      flush()
    end
    if full then return end
  end
end

-- The path of nearly every element. Commands take a chunk at a time: calling one costs as much as what it does for an
-- element. Lua reads every byte of a string that it makes, so only element and member are made. Whether the member is in
-- flight already is not checked: it would be the same element, returned between two runs of the same claim.
local call, pack, ceil = redis.call, struct.pack, math.ceil
local begin = new_begin .. 'D\0' .. owner .. claim
local function take_delayed(quota)
  local last = 0
  while quota > 0 do
    local n = next_chunk(quota, last)
    if n == 0 then return end
    last = n
    local found = call('ZRANGEBYSCORE', Z, '-inf', horizon, 'WITHSCORES', 'LIMIT', 0, n)
    local got, gone, bytes, full = 0, {}, 0, false
    for i = 1, #found, 2 do
      local element = found[i]
      local size = #element
      if size > largest then largest = size end
      if not fits(size, got, bytes) then full = true break end
      got, bytes, index = got + 1, bytes + size, index + 1
      local due = ceil(tonumber(found[i + 1]))
      if due > 9e15 then due = 9e15 elseif due < -9e15 then due = -9e15 end
      local member = begin .. pack('<I4I4I4i8', index, 0, 0, due) .. new_end .. element
      gone[got], members[taken + got] = element, member
      adds[2 * got - 1], adds[2 * got] = deadline, member
    end
    if got == 0 then return end
    kinds[#kinds + 1] = string.rep('d', got)
    taken, bytes_left, quota = taken + got, bytes_left - bytes, quota - got
    call('ZREM', Z, unpack(gone))
    flush()
    unlist(gone)
    if full then return end
  end
end

local function source_places()
  local places = {}
  if ready then places[#places + 1] = take_ready end
  if delayed then places[#places + 1] = take_delayed end
  return places
end

local function source_end()
  local ghosts = trim_list()
  local oldest = -1
  if ghosts > 0 then
    oldest = now - (tonumber(redis.call('HGET', SWEEP, 'oldest')) or now)
  end
  local score, size = '', 0
  if delayed then score, size = next_due(Z, ARGV[15], horizon) end
  return {score, size, redis.call('LLEN', L), ghosts, oldest}
end
