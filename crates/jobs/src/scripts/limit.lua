-- The effective value of a limit: the topic's hash overrides the daemon's value; nil is no limit. A value that is not a
-- number counts as not set, as in limits.rs. `most` is the largest valid value, if it is not that of milliseconds.
local function limit(set, daemon, most)
  if set == 'none' then return nil end
  local n = set and #set < 17 and string.find(set, '^%d+$') and tonumber(set)
  if n and n <= (most or 9007199254740991) then return n end
  return tonumber(daemon)
end
