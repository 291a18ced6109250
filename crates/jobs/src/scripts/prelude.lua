-- The common part of the job queue's scripts, put in front of each, because Redis has no shared functions. No script
-- starts with a #! line: a full Redis refuses such a script as a whole, but a full Redis must be drainable.
--
-- KEYS of every script, all of one topic; 9 to 13 only where they are needed:
--   1 due zset: id -> due time, ms. A job is in delay while that is in the future, and ready afterwards.
--   2 reserved zset: id -> end of its time to run, ms
--   3 records hash: id -> what `add` was given; only change.lua writes it anew, while the job waits
--   4 state hash: id -> changing data, from the first reservation on
--   5 dead zset: id -> time of death, ms
--   6 expiry zset: id -> end of its time to live, ms, for jobs that have one and are not dead
--   7 gone zset: id -> end of its remembrance, ms, for finished jobs with ids of their clients, and for ids under which earlier
--      versions have added a job; `!` or `=`, id, space, SHA-1 of the body for messages of inputs that were deleted, or added
--   8 topic hash: `created` (ms), `paused` (1), `exporting` (during an export, the job that is being exported, or
--      nothing before the first), `urgent` (1 while 9 may have members), `unique` (1 while 10 may have members), `recurring`
--      (1 while 13 has fields), and the limits that were set over the API
--   9 urgent zset: id -> priority and due time in one number, see priority.lua, for jobs with a priority that are in 1. A
--      daemon of an earlier version leaves members here that are not in 1.
--   10 unique zset: key of a caller -> time at which it is free in any case, ms
--   11 holders hash: key of a caller -> 'f' or 'e', and the id of the job that was added with it. With f the key is free too
--      when there is no job with this id.
--   12 firings zset: name of a recurring job that is not paused -> its next firing, ms
--   13 recurring hash: name of a recurring job -> its definition; `=` and the name -> the body of its jobs
--
-- A job has a record, and is in exactly one of 1, 2 and 5 unless a queue of the configuration has claimed it; or it is
-- gone (R2). record.rs documents records and states byte by byte.
--
-- The parts that only some scripts need are in files of their own, because each run creates its functions anew.

local call = redis.call
local DUE, RESERVED, RECORDS, STATE, DEAD, EXPIRY, GONE, TOPIC, URGENT, UNIQUE, HOLDERS, FIRINGS,
  RECURRING = unpack(KEYS)

-- Milliseconds by Redis's clock, which decides (R9).
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- Formats an integer. As an integer type where possible, which takes half the time.
local function ms(n)
  return string.format(n < 9007199254740992 and '%d' or '%.0f', n)
end

-- Redis does not roll a script back. So every key is read as its expected type before the first write, and the first
-- failing read is kept here. Keys that a script neither reads nor writes are not checked.
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
