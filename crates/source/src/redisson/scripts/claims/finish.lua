if delayed then
  z_score, z_size = next_due(Z, n_z, got_z, z_score, z_size, tonumber)
  local oldest = ghosts > 0 and now - (tonumber(sweep[1]) or now) or -1
  added = {z_score, z_size, entries_in_list, ghosts, oldest}
end
