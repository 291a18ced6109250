-- Buckets come first, then ready lists.
local places, got, rows, payloads, drained = {}, {}, {}, {}, {}
for b = 1, #BUCKETS do places[b], got[b] = due[b], 0 end
for l = 1, #LISTS do places[#places + 1], drained[l] = listed[l], 0 end
local function read_place(place, quota)
  if place <= #BUCKETS then
    got[place], rows[place] = read_zset(BUCKETS[place], quota, first_due[place])
    return
  end
  -- Of a list Redis tells the memory of all entries only, so those of a long one are read a few at a time.
  local l = place - #BUCKETS
  local list, width = LISTS[l], 4
  if listed[l] <= 1000 then width = call('MEMORY', 'USAGE', list, 'SAMPLES', 0) <= bytes_left and quota or 1 end
  while drained[l] < quota do
    local found = call('LRANGE', list, drained[l], math.min(drained[l] + width, quota) - 1)
    for i = 1, #found do
      if not fits(#found[i]) then return end
      drained[l], payloads[#payloads + 1] = drained[l] + 1, found[i]
    end
    if #found == 0 then return end
  end
end
