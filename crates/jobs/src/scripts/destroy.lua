-- Removes a topic with all of its jobs, remembered ids, unique keys, recurring jobs, limits and its pause.
--
-- ARGV 1 '1' whatever the states of its jobs, '' only if none is reserved or being delivered by a queue
-- Returns {'y', now, number of removed jobs}, or {'b', now, reserved jobs, jobs that a queue delivers} and nothing was
--      removed.
--
-- Repeated: nothing is left, and the second run returns y and 0.

--#include types.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local held, reserved = call('HLEN', RECORDS), call('ZCARD', RESERVED)
local forwarding = math.max(held - call('ZCARD', DUE) - reserved - call('ZCARD', DEAD), 0)
if ARGV[1] == '' and reserved + forwarding > 0 then return {'b', now, reserved, forwarding} end
call('UNLINK', unpack(KEYS))
return {'y', now, held}
