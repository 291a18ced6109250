-- Changes a job that waits: its due time, its priority, its content type, its body.
--
-- ARGV 1 name of the topic, 2 maximum size of a body in bytes, which a limit in the topic's hash overrides, 3 a content
--      type: what has it stays as it is, 4 id, 5 the due time that the job has to have now (ms), or '', 6 'a' or 't', or ''
--      for the same due time, 7 the delay or the due time (ms), 8 '1' if 9 is the new content type, 10 '1' if 11 is the
--      new body, 12 the new priority, or '' for the same
-- Returns {'y', now, due time, 1 if anything was changed}; or, with nothing changed, {'n', now} there is no such job, or it is past its time to live,
--      {'r', now} it is reserved, {'d', now} it is dead, {'f', now} a queue delivers it, {'m', now, due time} it has another
--      due time than 5, {'s', now} its time to live ends before it would be due, {'l', now, limit, size of the body},
--      {'k', now} it has the content type 3, {'u', now} it is unreadable for this version, {'e', now} the topic is paused
--      and being exported: a copy with the old body may have been made.
--
-- Repeated: a job that is as wanted already stays, whatever 5 says. Only a delay starts again.

--#include types.lua
--#include state.lua
--#include limit.lua
--#include priority.lua
--#include wake.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local id, new_type, new_body = ARGV[4], ARGV[8] == '1' and ARGV[9], ARGV[10] == '1' and ARGV[11]
local priority = tonumber(ARGV[12])
if call('HEXISTS', RECORDS, id) == 0 then return {'n', now} end
local text = call('ZSCORE', DUE, id)
if not text then
  if call('ZSCORE', RESERVED, id) then return {'r', now} end
  return {call('ZSCORE', DEAD, id) and 'd' or 'f', now}
end
local ends = call('ZSCORE', EXPIRY, id)
if ends and tonumber(ends) <= now then return {'n', now} end
local topic = call('HMGET', TOPIC, 'max_body', 'paused', 'exporting', 'urgent')
if topic[2] and topic[3] then return {'e', now} end

local was = tonumber(text)
local due = was
if ARGV[6] ~= '' then
  due = tonumber(ARGV[7])
  if ARGV[6] == 'a' then due = now + due end
  -- A job that is ready keeps its place among the ready ones.
  if due <= now then due = math.min(was, now) end
end
local record, size, state, had
if new_type or new_body or priority then
  local most = limit(topic[1], ARGV[2]) or tonumber(ARGV[2])
  if new_body and #new_body > most then return {'l', now, most, #new_body} end
  local old = call('HGET', RECORDS, id)
  if not is_record(old) then return {'u', now} end
  local n = string.byte(old, 27)
  had = string.byte(old, 26)
  priority = priority or had
  local old_type = string.sub(old, 28, 27 + n)
  if old_type == ARGV[3] and (new_type or new_body) then return {'k', now} end
  new_type = new_type or old_type
  record = string.sub(old, 1, 25) .. string.char(priority, #new_type) .. new_type
    .. (new_body or string.sub(old, 28 + n))
  size = #old
  if record == old then record = nil end
  if priority ~= had then
    state = call('HGET', STATE, id)
    local s = state and unpack_state(state)
    if state and not s then return {'u', now} end
    if s then
      s.priority = priority
      state = pack_state(s)
    end
  end
elseif topic[4] then
  local order = call('ZSCORE', URGENT, id)
  priority = order and 9 - math.floor(tonumber(order) / RANGE)
  had = priority
end
if due == was and not record then return {'y', now, text, 0} end
if ARGV[5] ~= '' and was ~= tonumber(ARGV[5]) then return {'m', now, text} end
if due ~= was then
  if ends and tonumber(ends) <= due then return {'s', now} end
  text = ms(due)
end

-- What needs no more memory is done on a full Redis too.
if not record or #record <= size then open() end
if record then call('HSET', RECORDS, id, record) end
if state then call('HSET', STATE, id, state) end
if due ~= was or priority ~= had then
  local head = call('ZRANGE', DUE, 0, 0, 'WITHSCORES')
  wait_until(id, due, priority or 0)
  if priority == 0 and topic[4] then call('ZREM', URGENT, id) end
  if due < tonumber(head[2]) then wake(ARGV[1]) end
end
return {'y', now, text, 1}
