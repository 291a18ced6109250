-- Members and scores stay as they were written. A member that is in several buckets is one job: it has one id.
local known = {}
for b, bucket in ipairs(BUCKETS) do
  if got[b] > 0 then
    if #elements == 0 then
      -- The first to write D, because this replaces it. By rank: between a read and a removal nothing changes.
      call('ZRANGESTORE', D, bucket, 0, got[b] - 1)
      elements = rows[b]
      for i = 1, #elements, 2 do known[elements[i]] = true end
    else
      local adds = {}
      for i = 1, #rows[b], 2 do
        local member, score = rows[b][i], rows[b][i + 1]
        if not known[member] then
          known[member], adds[#adds + 1], adds[#adds + 2] = true, score, member
          elements[#elements + 1], elements[#elements + 2] = member, score
        end
      end
      if #adds > 0 then call('ZADD', D, unpack(adds)) end
    end
    call('ZREMRANGEBYRANK', bucket, 0, got[b] - 1)
  end
end
if #payloads > 0 then
  --#include headers.lua
  add_with_headers(payloads)
  for l, list in ipairs(LISTS) do
    if drained[l] > 0 then call('LTRIM', list, drained[l], -1) end
  end
end
-- A life begins with each: the body goes when the last of them ends.
for i = 1, #elements, 2 do call('HINCRBY', LIVES, 'n' .. elements[i], 1) end
for i = 1, #payloads do call('HINCRBY', LIVES, 'n' .. payloads[i], 1) end
