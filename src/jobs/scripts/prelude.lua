-- Shared by the scripts of the job queue: put in front of each, because Redis knows no shared functions. No script starts
-- with a #! line: a Redis that is full refuses such a script as a whole, and a full Redis must be drainable.
--
-- KEYS of every script, all of one topic:
--   1 due zset: id -> due time, ms. A job is in delay while that is in the future, and ready from then on.
--   2 reserved zset: id -> end of its time to run, ms
--   3 records hash: id -> what was added; never changed
--   4 state hash: id -> what changes, from the first reservation on
--   5 dead zset: id -> time of death, ms
--   6 expiry zset: id -> end of its time to live, ms, for jobs that have one and are not dead
--   7 gone zset: id -> until when it is remembered, ms: finished jobs with ids of their clients
--   8 topic hash: `created` (ms), `paused` (1), `exporting` (the job whose copy is on its way), and the limits that were
--      set over the API
--
-- A job is in exactly one of 1, 2 and 5, or a queue of the configuration has taken it to deliver it; and it has a record. Or
-- it is gone (R2). record.rs documents records and states byte by byte.
--
-- The parts that only some scripts need are in files of their own: each run makes its functions anew.

local call = redis.call
local DUE, RESERVED, RECORDS, STATE, DEAD, EXPIRY, GONE, TOPIC = unpack(KEYS)

-- Milliseconds by the clock that decides (R9).
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- A whole number in digits. As an integer where it is one: that takes half the time.
local function ms(n)
  return string.format(n < 9007199254740992 and '%d' or '%.0f', n)
end

-- Redis does not roll a script back. So every key is read as what it must be before the first write, and the first read
-- that fails is kept here. What a script neither reads nor writes it does not check.
local READS = {Z = 'zset', H = 'hash'}
local bad
local function typed(key, command, ...)
  local answer = redis.pcall(command, key, ...)
  if type(answer) == 'table' and answer.err then
    if not bad then
      bad = answer
      if string.find(answer.err, 'WRONGTYPE', 1, true) then
        local kind = redis.pcall('TYPE', key).ok or 'value of another type'
        bad = redis.error_reply('WRONGKEY ' .. key .. ' holds a ' .. kind .. ', expected a ' .. READS[string.sub(command, 1, 1)])
      end
    end
    return nil
  end
  return answer
end
