-- A full Redis refuses additions until a script has written something. The removal of an empty range is enough, and
-- shows that the user may remove at all. Scripts that only make room, or move existing jobs, start with it; `add` does
-- not.
local function open()
  call('ZREMRANGEBYRANK', RESERVED, 1, 0)
end

-- Whether this version can read a record: its version is known, and nothing was cut off. record.rs applies the same
-- rules.
local function is_record(record)
  return #record >= 27 and string.byte(record) == 1 and #record >= 27 + string.byte(record, 27)
end

-- Whether an id is a valid id of the job queue. name.rs applies the same rules.
local function is_id(id)
  return id ~= '' and #id <= 128 and not string.find(id, '[^%w_.:~-]')
end

-- The parts of a state, with the priority in the last byte of the tries, which are fewer; nil for one that this version cannot read. The token remains until the job is reserved again.
local function unpack_state(text)
  if #text < 45 or string.byte(text) > 1 then return nil end
  local own, attempts, tries, ttr, reserved, expires = struct.unpack('<BI4I4I4I8I8', text)
  return {own = own, attempts = attempts, tries = tries % 16777216, priority = math.floor(tries / 16777216), ttr = ttr,
    reserved = reserved, expires = expires, token = string.sub(text, 30, 45), reason = string.sub(text, 46)}
end

local function pack_state(s)
  local tries = s.tries + 16777216 * s.priority
  return struct.pack('<BI4I4I4I8I8', s.own, s.attempts, tries, s.ttr, s.reserved, s.expires) .. s.token .. s.reason
end

-- The initial state of a job, from a readable record.
local NO_TOKEN = string.rep('-', 16)
local function fresh(record)
  local _, own, added, expires, ttr, tries = struct.unpack('<BBI8I8I4I4', record)
  return {own = own, attempts = 0, tries = tries % 16777216, priority = math.floor(tries / 16777216), ttr = ttr, reserved = 0,
    expires = expires, token = NO_TOKEN, reason = ''}
end
