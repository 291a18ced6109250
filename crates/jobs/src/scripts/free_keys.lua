-- Of so many unique keys, chosen at random, those that no job holds any more, although their time is not over. A job does not
-- know its key, so no script that removes a job can free it.
local function free_keys(most)
  local free, some = {}, typed(UNIQUE, 'ZRANDMEMBER', most)
  local texts = some and some[1] and typed(HOLDERS, 'HMGET', unpack(some)) or {}
  for i = 1, #texts do
    local id = string.match(texts[i] or 'f', '^f(.*)')
    if id and typed(RECORDS, 'HEXISTS', id) == 0 then
      free[#free + 1] = some[i]
    end
  end
  return free
end
