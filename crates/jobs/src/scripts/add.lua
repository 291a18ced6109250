-- Adds jobs: all of them, or none when the topic is full.
--
-- ARGV 1 maximum number of jobs of the topic that are not dead, or '', 2 name of the topic, 3 maximum size of a body in
--      bytes, 4 time to run (ms), 5 tries, 6 time to live (ms, 0 is unlimited) of jobs without their own; limits in the
--      topic's hash override 1 and 3 to 6, 7 '1' if a call that adds nothing has to write, so that a WAIT behind it also
--      speaks of the writes before. Then for each job: id, 1 if the client chose the id, 2 if it may also have added the
--      job before, 'a' or 't', the delay or the due time (ms), time to run, tries, time to live and priority, or '' each, content
--      type, body, and '', or its unique key:
--      f or e, time for which no other job is added with it (ms), a space, key; or, of a job whose id the client chose, a second id:
--      p, time for which it is remembered from now on (ms, or 0), a space, time at which the message was written (ms), a space, the id
--      under which earlier versions have added it; or c, time for which its contents are remembered after the job is due (ms), a
--      space, SHA-1 of its body, a space, an id made of its own id and its body; or, of a job with such an id, d, SHA-1 of its body, a
--      space, the id that this one is made of
-- Returns {'full', now, limit}; {'keys', now, limit} if there are too many unique keys; {'large', now, limit, size of the
--      body}; {'short', now} if a time to live ends before its job is due; {'over', now} if jobs past their time to live are in
--      the way, which the sweep (tick.lua) has to remove first; or {'ok', now, letters, {due time, ...}, 1 if the
--      topic is new, {id of the holder, ... of each u}} with a letter for each job: y added; o a job with this id and this
--      body exists; b one with this id and another body exists; g a job with this id was finished recently, of which only
--      the id, or id and body of d, are known; x a job with this id, or the id of c, and this body was deleted recently, said of one
--      that may have been added before; u another job holds its unique key. Only y has changed something. Of a job with a former id, o is also said of a job with
--      that id and this body that was added after the message was written.
--
-- Repeated: the ids exist with these bodies, and the second run returns o. A job with a generated id may have been
-- finished in between, and would be added again, so the daemon sends such a job once. Clients' ids are remembered for a
-- while. A job with a unique key and a generated id exists, and the second run returns u with its id.
--
-- The due entry is written before the record: an entry without a record is no job, and pop removes it, while a record
-- alone would stay.

--#include limit.lua
--#include priority.lua
--#include free_keys.lua
--#include deleted.lua
--#include wake.lua

-- The most unique keys of a topic.
local MAX_KEYS = 1000000

local now = clock()
local known = typed(TOPIC, 'HMGET', 'created', 'max_jobs', 'max_body', 'ttr', 'tries', 'ttl')
if bad then return bad end
local most, largest = limit(known[2], ARGV[1]), limit(known[3], ARGV[3]) or tonumber(ARGV[3])
local ttr = limit(known[4], ARGV[4], 4294967295) or tonumber(ARGV[4])
local tries = limit(known[5], ARGV[5], 4294967295) or tonumber(ARGV[5])
local ttl = limit(known[6], ARGV[6]) or 0
-- Whether the existing job with this id has this body.
local function has_body(id, body)
  if (typed(RECORDS, 'HSTRLEN', id) or 0) < 27 + #body then return false end
  local record = typed(RECORDS, 'HGET', id)
  return string.byte(record) == 1 and string.sub(record, 28 + string.byte(record, 27)) == body
end
-- Whether a job that an earlier version has added is this one.
local function has_former(words, body)
  local written, id = string.match(words, '^p%d+ (%-?%d+) (.+)$')
  if not id or not has_body(id, body) then return false end
  return struct.unpack('<I8', typed(RECORDS, 'HGET', id), 3) >= tonumber(written)
end
-- Whether this member of GONE is remembered.
local function is_remembered(member)
  local ends = typed(GONE, 'ZSCORE', member)
  return ends and tonumber(ends) > now
end
-- What is known of a job that may have been added before, under its own id or under one made of its contents.
local function repeated(id, body, last)
  local hash, other = string.match(last, '^c%d+ (%x+) (.+)$')
  if not other then return is_remembered(mark('!', id, redis.sha1hex(body))) and 'x' end
  if is_remembered(mark('!', id, hash)) or is_remembered(mark('!', other, hash)) then return 'x' end
  return has_body(other, body) and 'o'
end
-- Whether a job waits past the end of its time to live. A reserved one may still be finished, and one that a queue has
-- claimed is delivered.
local function is_over(id)
  local ends = typed(EXPIRY, 'ZSCORE', id)
  return ends and tonumber(ends) <= now and typed(DUE, 'ZSCORE', id)
end
-- The id of the job that holds a unique key, if any does.
local function holder_of(key)
  local ends = typed(UNIQUE, 'ZSCORE', key)
  local text = typed(HOLDERS, 'HGET', key)
  if not ends or not text or tonumber(ends) <= now then return nil end
  local id = string.sub(text, 2)
  if string.byte(text) == 102 and typed(RECORDS, 'HEXISTS', id) == 0 then return nil end
  return id
end
local letters, dues, seen, new, earliest = {}, {}, {}, 0, nil
local holders, keys, ends_of_keys, holder_of_new = {}, {}, {}, {}
for i = 8, #ARGV, 11 do
  local id, letter, due, lives = ARGV[i], 'y', tonumber(ARGV[i + 3]), tonumber(ARGV[i + 6]) or ttl
  if #ARGV[i + 9] > largest then return {'large', now, largest, #ARGV[i + 9]} end
  if ARGV[i + 7] ~= '' then typed(URGENT, 'ZCARD') end
  if ARGV[i + 2] == 'a' then due = now + due elseif due < now then due = now end
  if lives > 0 then typed(EXPIRY, 'ZCARD') end
  if lives > 0 and now + lives <= due then return {'short', now} end
  if seen[id] then
    letter = seen[id] == ARGV[i + 9] and 'o' or 'b'
  elseif typed(RECORDS, 'HEXISTS', id) == 1 then
    if is_over(id) then return {'over', now} end
    letter = has_body(id, ARGV[i + 9]) and 'o' or 'b'
  elseif ARGV[i + 1] ~= '0' then
    if is_remembered(id) then letter = 'g' end
  end
  local last = ARGV[i + 10]
  if ARGV[i + 1] == '2' and letter ~= 'o' then letter = repeated(id, ARGV[i + 9], last) or letter end
  if letter == 'y' and string.byte(last) == 100 then
    local hash, first = string.match(last, '^d(%x+) (.+)$')
    if is_remembered(mark('=', first, hash)) then letter = 'g' end
  end
  if letter == 'y' and string.byte(last) == 112 and has_former(last, ARGV[i + 9]) then letter = 'o' end
  if letter == 'y' and string.find(last, '^[ef]') then
    local mode, lasts, key = string.match(ARGV[i + 10], '^([ef])(%d+) (.+)$')
    local holder = holder_of_new[key] or holder_of(key)
    if holder then
      if is_over(holder) then return {'over', now} end
      letter, holders[#holders + 1] = 'u', holder
    else
      holder_of_new[key] = id
      ends_of_keys[#ends_of_keys + 1], ends_of_keys[#ends_of_keys + 2] = ms(now + tonumber(lasts)), key
      keys[#keys + 1], keys[#keys + 2] = key, mode .. id
    end
  end
  if letter == 'y' then
    seen[id] = ARGV[i + 9]
    new = new + 1
    if not earliest or due < earliest then earliest = due end
  end
  letters[#letters + 1], dues[#dues + 1] = letter, due
end
if bad then return bad end
if new > 0 and most then
  -- Every job has a record, also one that a queue delivers. The number of dead jobs is not limited here.
  local held, dead = typed(RECORDS, 'HLEN'), typed(DEAD, 'ZCARD')
  if bad then return bad end
  if held - dead + new > most then
    local over = typed(EXPIRY, 'ZRANGEBYSCORE', '-inf', ms(now), 'LIMIT', 0, 1)
    if bad then return bad end
    return {over[1] and 'over' or 'full', now, most}
  end
end
if new == 0 then
  -- A write for the replicas, which a full Redis refuses, and no change.
  if ARGV[7] == '1' then
    call('HSET', TOPIC, 'created', known[1] or ms(now))
    if not known[1] then call('HDEL', TOPIC, 'created') end
  end
  return {'ok', now, table.concat(letters), {}, 0, holders}
end
-- Keys whose time is over, of which twice as many are removed as are added.
local over = keys[1] and typed(UNIQUE, 'ZCOUNT', '-inf', ms(now)) or 0
-- A sample of twice as many as are added: so those that no job holds stay about as many as those that are held. `keys` has two
-- entries for each.
local free = keys[1] and free_keys(#keys) or {}
if keys[1] and typed(UNIQUE, 'ZCARD') - over - #free + #keys / 2 > MAX_KEYS then return {'keys', now, MAX_KEYS} end
-- A count costs a third of reading the first job with its score.
local before = typed(DUE, 'ZCOUNT', '-inf', ms(earliest))
if bad then return bad end

local waits, ranks, ends, records, second = {}, {}, {}, {}, {}
for n = 1, #letters do
  local i = 8 + (n - 1) * 11
  local id, due = ARGV[i], dues[n]
  if letters[n] == 'y' then
    local lives = tonumber(ARGV[i + 6]) or ttl
    local expires = lives > 0 and now + lives or 0
    waits[#waits + 1], waits[#waits + 2] = ms(due), id
    local priority = tonumber(ARGV[i + 7]) or 0
    if priority > 0 then ranks[#ranks + 1], ranks[#ranks + 2] = rank(priority, due), id end
    if expires > 0 then ends[#ends + 1], ends[#ends + 2] = ms(expires), id end
    local lasts, former = string.match(ARGV[i + 10], '^p(%d+) %-?%d+ (.+)$')
    if lasts and lasts ~= '0' then second[#second + 1], second[#second + 2] = ms(now + tonumber(lasts)), former end
    local longer, hash = string.match(ARGV[i + 10], '^c(%d+) (%x+) ')
    if longer then second[#second + 1], second[#second + 2] = ms(due + tonumber(longer)), mark('=', id, hash) end
    records[#records + 1], records[#records + 2] = id, struct.pack('<BBI8I8I4I4B', 1, ARGV[i + 1] == '0' and 0 or 1, now, expires,
      tonumber(ARGV[i + 4]) or ttr, with_priority(tonumber(ARGV[i + 5]) or tries, priority), #ARGV[i + 8]) .. ARGV[i + 8] .. ARGV[i + 9]
  end
end
if not known[1] then call('HSET', TOPIC, 'created', ms(now)) end
if keys[1] then
  call('HSET', TOPIC, 'unique', '1')
  over = math.min(over, #keys)
  if over > 0 then
    call('HDEL', HOLDERS, unpack(call('ZRANGE', UNIQUE, 0, over - 1)))
    call('ZREMRANGEBYRANK', UNIQUE, 0, over - 1)
  end
  if free[1] then
    call('HDEL', HOLDERS, unpack(free))
    call('ZREM', UNIQUE, unpack(free))
  end
  call('ZADD', UNIQUE, unpack(ends_of_keys))
  call('HSET', HOLDERS, unpack(keys))
end
call('ZADD', DUE, unpack(waits))
if ranks[1] then
  call('HSET', TOPIC, 'urgent', '1')
  call('ZADD', URGENT, unpack(ranks))
end
if ends[1] then call('ZADD', EXPIRY, unpack(ends)) end
if second[1] then call('ZADD', GONE, unpack(second)) end
call('HSET', RECORDS, unpack(records))
-- Wakes consumers of other daemons that wait for the first job. While a job is ready, none waits.
if before == 0 then wake(ARGV[2]) end
return {'ok', now, table.concat(letters), dues, known[1] and 0 or 1, holders}
