if got_z > 0 then
  -- By rank: between a read and a removal of one script nothing changes. Members and scores stay as they were written.
  call('ZRANGESTORE', D, Z, 0, got_z - 1)
  call('ZREMRANGEBYRANK', Z, 0, got_z - 1)
end
