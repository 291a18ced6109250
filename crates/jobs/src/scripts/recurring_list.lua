-- Returns recurring jobs of a topic. Read-only.
--
-- ARGV 1 'd' those whose next firing is due, the earliest first, without the first 2; 'a' those after the name 2, in alphabetical
--      order; 'o' that of the name 2, with its body; 2 number, name or '', 3 maximum number
-- Returns {now, {name, next firing or '', definition or '', size of the body, ...}, 1 if there are more, body or ''}.

--#include types.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local most, names, more = tonumber(ARGV[3]), {}, 0
if ARGV[1] == 'd' then
  names = call('ZRANGEBYSCORE', FIRINGS, '-inf', ms(now), 'LIMIT', ARGV[2], most)
elseif ARGV[1] == 'o' then
  names = {ARGV[2]}
else
  local all = call('HKEYS', RECURRING)
  for i = 1, #all do
    if string.byte(all[i]) ~= 61 and all[i] > ARGV[2] then names[#names + 1] = all[i] end
  end
  table.sort(names)
end
local found = {}
for i = 1, #names do
  local name = names[i]
  if i > most then
    more = 1
    break
  end
  local n = #found
  found[n + 1], found[n + 2] = name, call('ZSCORE', FIRINGS, name) or ''
  found[n + 3], found[n + 4] = call('HGET', RECURRING, name) or '', call('HSTRLEN', RECURRING, '=' .. name)
end
return {now, found, more, ARGV[1] == 'o' and call('HGET', RECURRING, '=' .. ARGV[2]) or ''}
