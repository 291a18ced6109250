if got_z > 0 then open(Z) end
if #payloads > 0 then
  call('LTRIM', READY, 0, -1)
  if permits then call('INCRBY', PERMITS, 0) end
end
