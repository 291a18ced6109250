-- The order of the waiting jobs with a priority, in one number: a range of due times for each priority, that of 9 first.
-- A due time beyond its range is its end, which no clock reaches.
local RANGE = 562949953421312
local function rank(priority, due)
  return ms((9 - math.min(priority, 9)) * RANGE + math.min(due, RANGE - 1))
end

-- The tries and the priority of a job as records and states have them, where daemons of an earlier version read tries.
local function with_priority(tries, priority)
  return math.min(tries, 16777215) + 16777216 * priority
end

-- Enters a job among the waiting ones, after it was checked that the keys have their types.
local function wait_until(id, due, priority)
  call('ZADD', DUE, ms(due), id)
  if priority > 0 then
    call('HSET', TOPIC, 'urgent', '1')
    call('ZADD', URGENT, rank(priority, due), id)
  end
end
