-- Converts elements to the other layout, in their places: same due time in Z, same place in L, same id and payload.
--
-- KEYS 1 Z zset, 2 L list
-- ARGV three for each: the place in L where its reader saw it (from 0; -1: not there), the element as it is, and as it is
--      to be
-- Returns {letters}: y done, n not in Z any more (nothing was changed), t left because the new bytes are scheduled
--      already. Fewer letters than elements when the search in L took long: send the rest.
--
-- Sent twice: the second run does not find the old bytes in Z and answers n.

local bad = wrong_type('zset', 'list')
if bad then return bad end
local Z, L = unpack(KEYS)
open(Z)

local cost = redis.call('LLEN', L) * 0.036
local letters, spent = {}, 0
for i = 1, #ARGV, 3 do
  local place, was, is = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
  local score = redis.call('ZSCORE', Z, was)
  if not score then
    letters[#letters + 1] = 'n'
  elseif redis.call('ZSCORE', Z, is) then
    letters[#letters + 1] = 't'
  else
    if place < 0 or redis.call('LINDEX', L, place) ~= was then
      -- Others have taken from the list since it was read, or it was not there. 5 ms is what a script may hold Redis up;
      -- one element goes whatever it costs.
      if spent > 0 and spent + cost > 5000 then break end
      spent = spent + cost
      place = redis.call('LPOS', L, was)
    end
    -- The list first: without the right to LSET the script ends here, and nothing was changed.
    if place then redis.call('LSET', L, place, is) end
    redis.call('ZADD', Z, score, is)
    redis.call('ZREM', Z, was)
    letters[#letters + 1] = 'y'
  end
end
return {table.concat(letters)}
