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
local exact, delayed, largest = ARGV[1] == 'exact', true, 0
local now = clock()
open(Z)

--#include list.lua

local letters, gone, overdue = {}, {}, now - tonumber(ARGV[2])
for i = 3, #ARGV, 2 do
  local element, payload = ARGV[i], ARGV[i + 1]
  if #element > largest then largest = #element end
  local score = tonumber(redis.call('ZSCORE', Z, element) or '+inf')
  if score <= overdue then
    -- The addition comes first: one that is refused leaves the element where it was.
    redis.call('RPUSH', READY, payload)
    redis.call('ZREM', Z, element)
    gone[#gone + 1] = element
    letters[#letters + 1] = 'y'
  else
    letters[#letters + 1] = 'n'
  end
end
unlist(gone)
trim_list()
return {now, table.concat(letters)}
