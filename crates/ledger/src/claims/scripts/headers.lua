-- Puts payloads that have no id into the claim as entries. Included where the source has such payloads; see entry.rs for
-- the layout of the header.

-- Equal payloads are different elements. The id is 64 bits of a hash over the time, the place in the claim and the nonce:
-- nothing that a second sending repeats.
local function add_with_headers(payloads)
  local adds, at, known = {}, ms(now), #entries / 2
  local begin = '\219\1' .. struct.pack('<I2I4', 80, 0) .. 'R\0\0\0' .. ARGV[2]
  local finish = struct.pack('<i8', now) .. string.rep('\0', 32)
  for i = 1, #payloads do
    local hash = redis.sha1hex(seconds .. '.' .. micros .. ':' .. i .. ':' .. ARGV[3])
    local id = struct.pack('>I4I4', tonumber(string.sub(hash, 1, 8), 16), tonumber(string.sub(hash, 9, 16), 16))
    local entry = begin .. struct.pack('<I4', i) .. id .. finish .. payloads[i]
    adds[2 * i - 1], adds[2 * i] = at, entry
    entries[2 * (known + i) - 1], entries[2 * (known + i)] = entry, at
  end
  call('ZADD', H, unpack(adds))
end
