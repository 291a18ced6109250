local places, got_z = {n_z}, 0
local function read_place(_, quota)
  got_z, elements = read_zset(Z, quota, first_z)
end
