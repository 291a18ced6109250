-- Buckets come first, then ready lists.
local places, got, rows, payloads, drained = {}, {}, {}, {}, {}
for b = 1, #BUCKETS do places[b], got[b] = due[b], 0 end
for l = 1, #LISTS do places[#places + 1], drained[l] = listed[l], 0 end
local function read_place(place, quota)
  if place <= #BUCKETS then
    got[place], rows[place] = read_zset(BUCKETS[place], quota, first_due[place])
    return
  end
  local l = place - #BUCKETS
  drained[l] = read_list(LISTS[l], listed[l], quota, payloads)
end
typed(LIVES, 'HLEN', LIVES)
