if got_z > 0 then
  call('ZRANGESTORE', D, Z, 0, got_z - 1)
  call('ZREMRANGEBYRANK', Z, 0, got_z - 1)
end
if #payloads > 0 then
  --#include headers.lua
  add_with_headers(payloads)
  call('LTRIM', READY, #payloads, -1)
end
