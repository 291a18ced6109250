-- A full Redis refuses additions until a script has written something: the removal of an empty range is enough, and shows
-- that the user may remove at all. Scripts that only make room, or move what is there, start with it. `add` does not.
local function open()
  call('ZREMRANGEBYRANK', RESERVED, 1, 0)
end

-- Whether this version can read a record: its version, and that nothing of it was cut off. record.rs reads the same.
local function is_record(record)
  return #record >= 27 and string.byte(record) == 1 and #record >= 27 + string.byte(record, 27)
end

-- Whether an id is one of the job queue, and not another program's. name.rs reads the same.
local function is_id(id)
  return id ~= '' and #id <= 128 and not string.find(id, '[^%w_.:~-]')
end

-- The parts of a state; the token is there while the job is reserved under it, and until it is reserved again. nil for one that
-- this version cannot read.
local function unpack_state(text)
  if #text < 45 or string.byte(text) > 1 then return nil end
  local own, attempts, tries, ttr, reserved, expires = struct.unpack('<BI4I4I4I8I8', text)
  return {own = own, attempts = attempts, tries = tries, ttr = ttr, reserved = reserved, expires = expires,
    token = string.sub(text, 30, 45), reason = string.sub(text, 46)}
end

local function pack_state(s)
  return struct.pack('<BI4I4I4I8I8', s.own, s.attempts, s.tries, s.ttr, s.reserved, s.expires) .. s.token .. s.reason
end

-- The state of a job that was never reserved, from a record that can be read.
local NO_TOKEN = string.rep('-', 16)
local function fresh(record)
  local _, own, added, expires, ttr, tries = struct.unpack('<BBI8I8I4I4', record)
  return {own = own, attempts = 0, tries = tries, ttr = ttr, reserved = 0, expires = expires, token = NO_TOKEN, reason = ''}
end
