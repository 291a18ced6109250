if ARGV[3] then
  local state = typed(ORDER, 'HMGET', ORDER, 'order_owner', 'order_until')
  if bad then return bad end
  local owner = string.sub(ARGV[3], 3, 18)
  -- Another one may have taken over already, whatever has become of it since. And who has given the order back holds nothing.
  if state[1] and (state[1] ~= owner or state[2] == '0') then return {'ok', now, string.rep('n', #ARGV - 2)} end
  call('HDEL', ORDER, '')
  call('HSET', ORDER, 'order_owner', owner, 'order_until', ms(math.max(tonumber(state[2] or '') or 0, tonumber(deadline))))
end
