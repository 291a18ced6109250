-- Reads some names of the fields of a hash, without their values. Reads only.
--
-- KEYS 1 the hash
-- ARGV 1 cursor
-- Returns {cursor to go on with, '0' at the end, {field, ...}}.
--
-- Sent twice: it reads again.

local bad = wrong_type('hash')
if bad then return bad end
-- Redis reads the values with the names: as many as are in 1 MB, by the mean of some of them.
local bytes = redis.call('MEMORY', 'USAGE', KEYS[1], 'SAMPLES', 20)
if not bytes then return {'0', {}} end
local mean = math.max(1, bytes / redis.call('HLEN', KEYS[1]))
local count = math.max(1, math.min(500, math.floor(1048576 / mean)))
local page, names = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', count), {}
for i = 1, #page[2], 2 do names[#names + 1] = page[2][i] end
return {page[1], names}
