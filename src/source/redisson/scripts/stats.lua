-- What the gauges of a queue show. Reads only.
--
-- KEYS 1 Z zset, 2 L list, 3 ready list, 4 in-flight zset, 5 retry zset, 6 ghosts set, 7 ghosts-turn set, 8 state hash,
--      9 dead stream
-- ARGV 1 score of a head of Z known to be large, or ''
-- Returns {now, scheduled, due, in flight, retry, dead, ready list, L entries, ghosts, age of the oldest ghost in ms
--      or -1, orphans of the last complete turn, score and size of Z's head}.

local bad = wrong_type('zset', 'list', 'list', 'zset', 'zset', 'set', 'set', 'hash', 'stream')
if bad then return bad end
local now = clock()
local scheduled = redis.call('ZCARD', KEYS[1])
local ghosts = redis.call('SCARD', KEYS[6]) + redis.call('SCARD', KEYS[7])
local state = redis.call('HMGET', KEYS[8], 'oldest', 'orphans')
local score, size = head(KEYS[1], ARGV[1])
return {now, scheduled, redis.call('ZCOUNT', KEYS[1], '-inf', now), redis.call('ZCARD', KEYS[4]),
  redis.call('ZCARD', KEYS[5]), redis.call('XLEN', KEYS[9]), redis.call('LLEN', KEYS[3]), redis.call('LLEN', KEYS[2]),
  ghosts, ghosts > 0 and now - (tonumber(state[1]) or now) or -1, tonumber(state[2]) or 0, score, size}
