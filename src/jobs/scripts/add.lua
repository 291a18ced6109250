-- Adds jobs: all of them, or none when the topic is full.
--
-- ARGV 1 most jobs of the topic that are not dead, or '', 2 name of the topic, then for each job:
--      id, 1 if the id is the client's own, 'a' or 't', the delay or the due time (ms), time to run (ms), tries,
--      time to live (ms, 0 is for ever), content type, body
-- Returns {'full', now}; {'short', now} when a time to live ends before its job is due; or {'ok', now, letters, {due time, ...}, 1 if the topic is new}: a letter for each job: y added,
--      o a job with this id is there, g a job with this id was finished lately. For the last two nothing was done.
--
-- Sent twice: the ids are there, and the second run answers o. A job with an id of the daemon may have been finished
-- in between, and would be added again: the daemon sends such a job once. Ids of clients are remembered for a while.
--
-- The due entry comes before the record: one without a record is no job, and pop removes it. A record alone would stay.

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local letters, dues, seen, new = {}, {}, {}, 0
for i = 3, #ARGV, 9 do
  local id, letter, due, ttl = ARGV[i], 'y', tonumber(ARGV[i + 3]), tonumber(ARGV[i + 6])
  if ARGV[i + 2] == 'a' then due = now + due elseif due < now then due = now end
  if ttl > 0 and now + ttl <= due then return {'short', now} end
  if seen[id] or call('HEXISTS', RECORDS, id) == 1 then
    letter = 'o'
  elseif ARGV[i + 1] == '1' then
    local known = call('ZSCORE', GONE, id)
    if known and tonumber(known) > now then letter = 'g' end
  end
  seen[id] = true
  if letter == 'y' then new = new + 1 end
  letters[#letters + 1], dues[#dues + 1] = letter, due
end
if new > 0 and ARGV[1] ~= '' and call('ZCARD', DUE) + call('ZCARD', RESERVED) + new > tonumber(ARGV[1]) then
  return {'full', now}
end
if new == 0 then return {'ok', now, table.concat(letters), {}, 0} end

local head, earliest = call('ZRANGE', DUE, 0, 0, 'WITHSCORES'), nil
local first = call('HSETNX', TOPIC, 'created', ms(now))
for n = 1, #letters do
  local i = 3 + (n - 1) * 9
  local id, due = ARGV[i], dues[n]
  if letters[n] == 'y' then
    local ttl = tonumber(ARGV[i + 6])
    local expires = ttl > 0 and now + ttl or 0
    call('ZADD', DUE, ms(due), id)
    if expires > 0 then call('ZADD', EXPIRY, ms(expires), id) end
    call('HSET', RECORDS, id, struct.pack('<BBI8I8I4I4B', 1, tonumber(ARGV[i + 1]), now, expires, tonumber(ARGV[i + 4]),
      tonumber(ARGV[i + 5]), #ARGV[i + 7]) .. ARGV[i + 7] .. ARGV[i + 8])
    if not earliest or due < earliest then earliest = due end
  end
end
-- Who waits in another daemon waits for the head. While something is ready nobody waits.
if not head[1] or earliest < tonumber(head[2]) then call('PUBLISH', 'delaybridge:jobs:wake', ARGV[2]) end
return {'ok', now, table.concat(letters), dues, first}
