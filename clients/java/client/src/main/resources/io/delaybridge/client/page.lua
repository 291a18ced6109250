-- A page of the sorted set, as one flat list.
--
-- KEYS 1 Z sorted set
-- ARGV 1 cursor, 2 about how many elements
-- Returns {next cursor, element, score, element, score, ...}.

local page = redis.call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
table.insert(page[2], 1, page[1])
return page[2]
