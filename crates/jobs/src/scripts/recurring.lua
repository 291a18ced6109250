-- The definition of a recurring job: nil if there is none, false for one that this version cannot read. recurring/record.rs
-- documents it byte by byte.
local function definition(name)
  local text = call('HGET', RECURRING, name)
  if not text then return nil end
  if #text < 10 or string.byte(text) ~= 1 then return false end
  local _, revision, paused = struct.unpack('<BI8B', text)
  return {revision = revision, paused = paused, tail = string.sub(text, 11)}
end

-- Whether the next firing of a recurring job is due.
local function is_due(next_ms, now)
  return next_ms and tonumber(next_ms) <= now
end
