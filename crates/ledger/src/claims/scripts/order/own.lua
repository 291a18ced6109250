-- Whether the owner of the claim with this name may go on; else until when another daemon has the order. A lease that is over
-- is free, and stays that of its last owner until another one takes it.
local function own(name, now, deadline)
  local state = typed(ORDER, 'HMGET', ORDER, 'order_owner', 'order_until')
  if bad then return end
  local owner, ends = string.sub(name, 3, 18), tonumber(state[2] or '') or 0
  if state[1] and state[1] ~= owner and ends > now then return ends end
  if not state[1] then
    -- The queue was not in order before, or its state was deleted: who has something in flight delivers it to its end.
    local running = typed(LEASES, 'ZRANGE', LEASES, '(' .. ms(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1000, 'WITHSCORES')
    if bad then return end
    for i = #running - 1, 1, -2 do
      if string.sub(running[i], 3, 18) ~= owner then return tonumber(running[i + 1]) end
    end
  end
  if state[1] ~= owner then ends = 0 end
  -- Removes nothing: a full Redis refuses a script if its first write may need memory.
  call('HDEL', ORDER, '')
  call('HSET', ORDER, 'order_owner', owner, 'order_until', ms(math.max(ends, tonumber(deadline))))
end
