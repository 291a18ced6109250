-- Removes dead letters that a sink has confirmed, and makes the caller the one who moves this queue's letters on.
--
-- KEYS 1 dead stream, 2 state hash
-- ARGV 1 forwarder (8 bytes), 2 its lease (ms; 0 gives it back), then the stream ids of confirmed letters
-- Returns 1 when the caller may go on, 2 when it may because the lease of another one ran out that was not given back:
--      what that one had at the sink may be there, 0 while another daemon moves them.
--
-- Sent twice: what is removed stays removed, and the lease gets another end. What a sink has confirmed is removed
-- whoever says so: the letter has arrived.

local bad = wrong_type('stream', 'hash')
if bad then return bad end
local now = clock()
-- A full Redis refuses a script whose first write may grow.
redis.call('HDEL', KEYS[2], '')
local state = redis.call('HMGET', KEYS[2], 'forwarder', 'forwards_until', 'forwards_returned')
local lease_end = tonumber(state[2]) or 0
local own = not state[1] or state[1] == ARGV[1]
local mine = own or lease_end <= now
-- A lease that was given back ended at the moment of its giving back, which `returned` remembers.
local taken_over = not own and mine and state[3] ~= '1'
if mine then
  redis.call('HSET', KEYS[2], 'forwarder', ARGV[1], 'forwards_until', now + tonumber(ARGV[2]),
    'forwards_returned', ARGV[2] == '0' and '1' or '0')
end
for i = 3, #ARGV do redis.call('XDEL', KEYS[1], ARGV[i]) end
if taken_over then return 2 end
return mine and 1 or 0
