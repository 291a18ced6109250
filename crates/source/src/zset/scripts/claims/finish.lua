z_score, z_size = next_due(Z, n_z, got_z, z_score, z_size, raw)
added = {z_score, z_size}
