-- Transfers overdue elements to the ready list, exactly as a Redisson client would: for teams that keep their consumers.
--
-- KEYS 1 Z zset, 2 L list, 3 ready list, 4 ghosts set, 5 ghosts-turn set, 6 sweep hash
-- ARGV 1 list cleanup ('auto' or 'exact'), 2 how long an element must be overdue (ms), then pairs: the exact element, and
--      the payload that its reader found in it
-- Returns {now, letters}: y moved, n not there any more or not overdue long enough.
--
-- Sent twice: the second run finds the elements gone from Z and answers n.

local bad = wrong_type('zset', 'list', 'list', 'set', 'set', 'hash')
if bad then return bad end
local Z, L, READY, GHOSTS, TURN, SWEEP = unpack(KEYS)
local call, exact, probed, largest, got_z, elements = redis.call, ARGV[1] == 'exact', false, 0, 0, {}
local now = clock()
local entries_in_list, ghosts = call('LLEN', L), call('SCARD', GHOSTS) + call('SCARD', TURN)
local sweep = call('HMGET', SWEEP, 'oldest', 'lrem_at', 'lrem_us')
open(Z)

local letters, overdue, bytes = {}, now - tonumber(ARGV[2]), 0
for i = 3, #ARGV, 2 do
  local element, payload = ARGV[i], ARGV[i + 1]
  local score = tonumber(call('ZSCORE', Z, element) or '+inf')
  if score <= overdue then
    -- The addition comes first: one that is refused leaves the element where it was.
    call('RPUSH', READY, payload)
    call('ZREM', Z, element)
    got_z, bytes = got_z + 1, bytes + #element
    if #element > largest then largest = #element end
    elements[2 * got_z - 1], elements[2 * got_z] = element, ms(score)
    letters[#letters + 1] = 'y'
  else
    letters[#letters + 1] = 'n'
  end
end
-- As Redis counts its memory, with what is beside it.
local mean = bytes / math.max(got_z, 1) + 160
--#include list.lua
return {now, table.concat(letters)}
