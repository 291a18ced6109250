-- Reads what is to be moved. Included only where it is needed: each run makes its functions anew.

-- What a claim has room for: `bytes_left` is set by the script. `short` is 1 when something was left because of its size.
-- `mean` is the memory of one member of those that were read last, a little more than its size.
local taken, bytes_left, largest, short, mean = 0, 0, 0, 0, 0

local function fits(size)
  if size > largest then largest = size end
  if taken > 0 and size > bytes_left then
    short = 1
    return false
  end
  taken, bytes_left = taken + 1, bytes_left - size
  return true
end

-- How many of the first `want` members of a zset may be read. Redis tells the memory of the first members without reading
-- them; it counts at most 160 bytes for each beside the member itself. Reading costs up to 5 ms per MB, before any
-- limit can look at what was read, and behind 63 small members may be 64 large ones. At least one, if there is none yet.
local function readable(key, want)
  local least = taken == 0 and 1 or 0
  if want <= least then return want end
  local card, high = call('ZCARD', key), want + 1
  local low, middle = least, want
  while high - low > 1 do
    local each = call('MEMORY', 'USAGE', key, 'SAMPLES', middle) / card
    if (each - 160) * middle <= bytes_left then low, mean = middle, each else high = middle end
    middle = math.floor((low + high) / 2)
  end
  if low < want then short = 1 end
  return low
end

-- Reads the first `want` members of a zset and their scores, as far as there is room. `first` are members and scores of the
-- first ranks that were read already. Returns how many, and {member, score, ...}. With `aside`, members of a version that
-- is not known are put there, and not taken.
local function read_zset(key, want, first, aside)
  local k = readable(key, want)
  if k == 0 then return 0, {} end
  local rows = 2 * k <= #first and first or call('ZRANGE', key, 0, k - 1, 'WITHSCORES')
  local n, out = 0, rows
  if aside then out = {} end
  for i = 1, 2 * k, 2 do
    local member = rows[i]
    if not member then break end
    if aside and (#member < 80 or string.sub(member, 1, 2) ~= '\219\1') then
      aside[#aside + 1] = member
    else
      if not fits(#member) then break end
      n = n + 1
      if aside then out[2 * n - 1], out[2 * n] = member, rows[i + 1] end
    end
  end
  for i = #out, 2 * n + 1, -1 do out[i] = nil end
  return n, out
end

-- Reads the first `want` entries of a list of `length` into `payloads`, as far as there is room; how many. Of a list Redis
-- tells only the memory of all entries, or that of its first nodes times all nodes. Where one of them may be large they are
-- read one by one: one that does not fit is read in vain, and goes first in the next claim.
local function read_list(list, length, want, payloads)
  local width, n = 1, 0
  if length <= 1000 then
    if call('MEMORY', 'USAGE', list, 'SAMPLES', 0) <= bytes_left then width = want end
  elseif call('MEMORY', 'USAGE', list, 'SAMPLES', 64) <= length * 1024 then
    width = 16
  end
  while n < want do
    local found = call('LRANGE', list, n, math.min(n + width, want) - 1)
    for i = 1, #found do
      if not fits(#found[i]) then return n end
      n, payloads[#payloads + 1] = n + 1, found[i]
    end
    if #found == 0 then break end
  end
  return n
end
