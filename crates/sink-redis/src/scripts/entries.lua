-- Adds entries to a stream in their order, until one is refused: no later one is added then.
--
-- KEYS[1]  the stream
-- ARGV     for each entry: the number of arguments of its XADD behind the key, and these
--
-- Answers the ids of the entries; the last answer may be the error that one was refused with. A second call adds them again.
local ids, at = {}, 1
while ARGV[at] do
  local count = tonumber(ARGV[at])
  local id = redis.pcall('XADD', KEYS[1], unpack(ARGV, at + 1, at + count))
  ids[#ids + 1] = id
  if type(id) == 'table' then
    return ids
  end
  at = at + count + 1
end
return ids
