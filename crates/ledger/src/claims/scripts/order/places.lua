-- What went back goes first, and of each place what falls due first: nothing of the next before all of this.
quotas, left, turn = {}, most, 0
for place = 1, #places do
  quotas[place] = math.min(left, places[place])
  left = left - quotas[place]
end
local read_in_turn = read_place
read_place = function(place, quota)
  if short == 0 and got_retry + #aside == n_retry then read_in_turn(place, quota) end
end
