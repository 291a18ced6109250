-- Removes dead letters that a sink has confirmed, and makes the caller the forwarder of this queue's letters.
--
-- KEYS 1 dead stream, 2 state hash
-- ARGV 1 forwarder (8 bytes), 2 its lease (ms; 0 gives it back), then the stream ids of confirmed letters
-- Returns 1 if the caller may continue, 2 if it may because the unreleased lease of another one expired:
--      what that one had at the sink may be there, 0 while another daemon moves them.
--
-- Sent twice: what is removed stays removed, and the lease gets another end. What a sink has confirmed is removed
-- from any caller: the letter has arrived.

local bad = wrong_type('stream', 'hash')
if bad then return bad end
local now = clock()
-- A full Redis refuses a script if its first write may need memory.
redis.call('HDEL', KEYS[2], '')
local state = redis.call('HMGET', KEYS[2], 'forwarder', 'forwards_until', 'forwards_returned')
local lease_end = tonumber(state[2]) or 0
local own = not state[1] or state[1] == ARGV[1]
local mine = own or lease_end <= now
-- A released lease ended at its release, which `returned` stores.
local taken_over = not own and mine and state[3] ~= '1'
if mine then
  redis.call('HSET', KEYS[2], 'forwarder', ARGV[1], 'forwards_until', now + tonumber(ARGV[2]),
    'forwards_returned', ARGV[2] == '0' and '1' or '0')
end
for i = 3, #ARGV do redis.call('XDEL', KEYS[1], ARGV[i]) end
if taken_over then return 2 end
return mine and 1 or 0
