-- What applies of a limit: what the topic's hash says goes before what the daemon says; nil is none. What is not a number there
-- is as if it was not set: limits.rs shows it so. `most` is the largest that is meant, if that is not any number of milliseconds.
local function limit(set, daemon, most)
  if set == 'none' then return nil end
  local n = set and #set < 17 and string.find(set, '^%d+$') and tonumber(set)
  if n and n <= (most or 9007199254740991) then return n end
  return tonumber(daemon)
end
