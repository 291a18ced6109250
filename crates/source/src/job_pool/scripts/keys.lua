-- The pool's keys, behind those of the ledger: ARGV[1] buckets, then ready lists.
local BUCKETS, LISTS, SOURCE_TYPES = {}, {}, {}
for i = 4, #KEYS do
  local buckets = #BUCKETS < tonumber(ARGV[1])
  local keys = buckets and BUCKETS or LISTS
  keys[#keys + 1], SOURCE_TYPES[#SOURCE_TYPES + 1] = KEYS[i], buckets and 'zset' or 'list'
end
