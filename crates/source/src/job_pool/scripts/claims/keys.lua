-- The pool's keys, behind those of the ledger: ARGV[11] buckets, then ready lists that are drained. The last key is that of
-- lives.
local LIVES = table.remove(KEYS)
local BUCKETS, LISTS = {}, {}
for i = 5, #KEYS do
  local keys = #BUCKETS < tonumber(ARGV[11]) and BUCKETS or LISTS
  keys[#keys + 1] = KEYS[i]
end
