-- Removes dead letters that a sink has confirmed, and makes the caller the one who moves this queue's letters on.
--
-- KEYS 1 dead stream, 2 state hash
-- ARGV 1 forwarder (8 bytes), 2 its lease (ms; 0 gives it back), then the stream ids of confirmed letters
-- Returns 1 when the caller may go on, 0 while another daemon moves them.
--
-- Sent twice: what is removed stays removed, and the lease gets another end. What a sink has confirmed is removed
-- whoever says so: the letter has arrived.

local bad = wrong_type('stream', 'hash')
if bad then return bad end
local now = clock()
-- A full Redis refuses a script whose first write may grow.
redis.call('HDEL', KEYS[2], '')
local state = redis.call('HMGET', KEYS[2], 'forwarder', 'forwards_until')
local mine = not state[1] or state[1] == ARGV[1] or (tonumber(state[2]) or 0) <= now
if mine then redis.call('HSET', KEYS[2], 'forwarder', ARGV[1], 'forwards_until', now + tonumber(ARGV[2])) end
for i = 3, #ARGV do redis.call('XDEL', KEYS[1], ARGV[i]) end
return mine and 1 or 0
