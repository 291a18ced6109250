-- The member of GONE that remembers a deleted job with an id of its client's, and its body. No id has these letters.
local function deleted_mark(id, body)
  return '!' .. id .. ' ' .. redis.sha1hex(body)
end
