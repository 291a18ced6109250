-- Writes the status of jobs, each only if its record still is what was read.
--
-- KEYS the keys of jobs
-- ARGV for each job: place of its key in KEYS, 's' a string or 'h' a hash, field of the record in the hash, SHA-1 of the record,
--      field of the status beside the record or '', the status, or the record with another status
-- Returns a letter for each: y written, n it was changed meanwhile, or Redis refuses (a full server, a missing right).
--
-- Sent twice: the record is not what was read any more, and the second run answers n; a status beside it is written again.

local letters = {}
for i = 1, #ARGV, 6 do
  local key, field, beside, value, body, done = KEYS[tonumber(ARGV[i])], ARGV[i + 2], ARGV[i + 4], ARGV[i + 5], nil, nil
  if ARGV[i + 1] == 's' then body = redis.pcall('GET', key) else body = redis.pcall('HGET', key, field) end
  if type(body) == 'string' and redis.sha1hex(body) == ARGV[i + 3] then
    if ARGV[i + 1] == 's' then
      done = redis.pcall('SET', key, value, 'KEEPTTL')
    else
      done = redis.pcall('HSET', key, beside == '' and field or beside, value)
    end
  end
  letters[#letters + 1] = done and not (type(done) == 'table' and done.err) and 'y' or 'n'
end
return table.concat(letters)
