-- Releases or buries jobs.
--
-- ARGV 1 exact length to which the dead jobs are trimmed, or '', 2 name of the topic, 3 wait after a first attempt (ms),
--      4 the longest such wait, then for each job: id, token, how, delay (ms), or '' for the wait after its attempts, if
--      this one counts; reason. How: r the attempt counts, u it does not, b buried: dead whatever tries are left.
-- Returns {now, letters, {due time or time of death, ...}, number of dead jobs trimmed}: y ready again, d dead, x past
--      its time to live and gone, c not reserved under this token any more, n no such job, s still reserved: its time to
--      live ends before the delay is over.
--
-- Repeated: the jobs are not reserved any more, and the second run returns c.

--#include types.lua
--#include state.lua
--#include moves.lua
--#include wake.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local head, earliest = call('ZRANGE', DUE, 0, 0, 'WITHSCORES'), nil
local letters, times, died = {}, {}, 0
local wait = waits(ARGV[3], ARGV[4])
for i = 5, #ARGV, 5 do
  local id, how, letter, due = ARGV[i], ARGV[i + 2], 'n', now + (tonumber(ARGV[i + 3]) or 0)
  local text = call('HGET', STATE, id)
  local s = text and string.sub(text, 30, 45) == ARGV[i + 1] and unpack_state(text)
  if s and call('ZSCORE', RESERVED, id) then
    open()
    s.reason = ARGV[i + 4]
    -- `give_back` would judge by the tries; the attempts are kept, so that `get` shows them.
    if how == 'u' then
      s.attempts = math.max(s.attempts - 1, 0)
    elseif ARGV[i + 3] == '' then
      due = now + wait(s.attempts)
    end
    if how ~= 'b' and ARGV[i + 3] ~= '' and s.attempts < s.tries and s.expires > now and s.expires <= due then
      letter = 's'
    elseif how == 'b' then
      call('ZADD', DEAD, ms(now), id)
      call('HSET', STATE, id, pack_state(s))
      call('ZREM', EXPIRY, id)
      letter = 'd'
    else
      letter = give_back(id, s, now, due)
    end
    if letter ~= 's' then call('ZREM', RESERVED, id) end
    if letter == 'd' then died, due = died + 1, now end
    if letter == 'y' and (not earliest or due < earliest) then earliest = due end
  elseif call('HEXISTS', RECORDS, id) == 1 then
    letter = 'c'
  end
  letters[#letters + 1], times[#times + 1] = letter, due
end
local trimmed = died > 0 and trim_dead(ARGV[1]) or 0
if earliest and (not head[1] or earliest < tonumber(head[2])) then
  wake(ARGV[2])
end
return {now, table.concat(letters), times, trimmed}
