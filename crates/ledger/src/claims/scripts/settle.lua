-- Writes verdicts on single elements of claims; each names the key and the exact member (R3).
--
-- KEYS 1 retry zset, 2 dead stream, 3 the destination list of exactly-once pushes, or the retry zset once more where there
--      is none, then d and h zset of each claim in question, the zsets of the source where something goes back or bodies go,
--      the hash of lives where bodies are kept beside the elements, and the keys of bodies
-- ARGV 1 exact length that the dead stream is trimmed to, or '', 2 how many of KEYS come before those of the source, 3 how
--      many zsets of the source there are, 4 '1' if lives are counted, then a sequence of verdicts; k is the place in KEYS of the key that holds the
--      member (even: an element in d, odd: an entry in h):
--      'c' k member                            confirmed: removed
--      't' k member header delay               retry: to the retry zset, `delay` ms from now, under the new header
--      'r' k member header at                  release: to the retry zset at the absolute time `at`, under the new header
--      'p' k member header                     progress: to the claim's h under the new header, the lease runs on
--      'd' k member n at field value ...       dead: n fields and values to the dead stream; the one at the place `at`, if that
--                                              is not 0, is where in the member a value begins that ends with it
--      'x' k member side body                  exactly once: removed, and pushed to KEYS[3], side 'l' or 'r'
--      'g' k member score                      back to the first zset of the source, unless it is in one of them already
--      Before 'c', 'd' and 'x': 'b' place kind field sha1 n, the body that goes with the element if it still is what was
--      delivered, or what an earlier life of the element ended with; sha1 is '' if this life found no body. It is the string at
--      this place of KEYS ('s'), a field of the hash there ('f'), or that whole hash ('o'). And n times `what place name ms`,
--      done after it: 'u' a key goes, 'h' a field of a hash goes, 'z' a member of a zset goes, 'k' it comes, to be kept until ms from now on
-- Returns {now, answers, dead letters trimmed away}: a letter for each verdict: y done, a done before, n not there any
--      more, w the destination is no list (nothing was changed).
--
-- Sent twice: the members are gone from keys with names that never come back; the second run answers n, or a where the new
-- member is there to be seen.

local RETRY, DEAD, LIST = KEYS[1], KEYS[2], KEYS[3]
local now = clock()
typed(RETRY, 'ZCARD', RETRY)
typed(DEAD, 'XLEN', DEAD)
local first_due = tonumber(ARGV[2]) + 1
local last_due = first_due + tonumber(ARGV[3]) - 1
for k = 4, last_due do typed(KEYS[k], 'ZCARD', KEYS[k]) end
local LIVES = ARGV[4] == '1' and KEYS[last_due + 1]
if LIVES then typed(LIVES, 'HLEN', LIVES) end
if bad then return bad end
local pushes = LIST ~= RETRY
if pushes then
  local kind = call('TYPE', LIST).ok
  pushes = kind == 'list' or kind == 'none'
end
-- Opens a full Redis, and shows that members of claims can be removed. An entry is never empty.
call('ZREM', KEYS[5], '')

-- What the source has of a member, and whether that is scheduled once more. A member that is shorter than any header was
-- damaged: all of it is the element.
local function element_of(k, member)
  if k % 2 == 0 or #member < 80 then return member end
  return string.sub(member, struct.unpack('<I2', member, 3) + 1)
end
local function scheduled(element)
  for k = first_due, last_due do
    if call('ZSCORE', KEYS[k], element) then return true end
  end
  return false
end

-- Ends a life of an element that leaves the ledger, and says whether it was the last, and which body (its SHA-1) a life before it
-- ended with. An element that is offered again while a life of it is in flight has two, with one body.
local function last_life(element, sha1)
  if not LIVES then return true end
  local count, body = 'n' .. element, 'b' .. element
  if call('HINCRBY', LIVES, count, -1) > 0 then
    if sha1 then call('HSET', LIVES, body, sha1) end
    return false
  end
  local ended = call('HGET', LIVES, body)
  call('HDEL', LIVES, count, body)
  return true, ended
end

-- Removes the body that ARGV names from b on. One that its user has written anew, or whose element is scheduled again, belongs to
-- another life of the job, and stays, unless that life ended before this one, with this SHA-1 (`ended`). A value of another type
-- stays as well. The body goes last: should that be refused, it is left over, and nothing is lost.
local function remove_body(b, element, ended)
  if scheduled(element) then return end
  local key, kind, field = KEYS[tonumber(ARGV[b + 1])], ARGV[b + 2], ARGV[b + 3]
  local body
  if kind == 's' then body = redis.pcall('GET', key) else body = redis.pcall('HGET', key, field) end
  if type(body) == 'table' and body.err and not string.find(body.err, 'WRONGTYPE', 1, true) then error(body.err) end
  if type(body) ~= 'string' then return end
  local sha1 = redis.sha1hex(body)
  if sha1 ~= ARGV[b + 4] and sha1 ~= ended then return end
  if kind == 'f' then call('HDEL', key, field) else call('UNLINK', key) end
  for at = b + 6, b + 2 + 4 * tonumber(ARGV[b + 5]), 4 do
    local what, beside, name = ARGV[at], KEYS[tonumber(ARGV[at + 1])], ARGV[at + 2]
    if what == 'u' then
      redis.pcall('UNLINK', beside)
    elseif what == 'h' then
      redis.pcall('HDEL', beside, name)
    elseif what == 'z' then
      redis.pcall('ZREM', beside, name)
    else
      redis.pcall('ZADD', beside, ms(now + tonumber(ARGV[at + 3])), name)
    end
  end
end

-- Removes `count` confirmed members of a claim that ARGV names from `first` on, and answers for each. By its name, each would cost
-- a replica all its bytes once more. So they are removed by rank, in runs, where they are a good part of what the claim holds, and
-- reading that takes little time.
local answers = {}
local function confirm(key, first, count)
  local ranks
  if count >= 8 and call('ZCARD', key) <= 8 * count and (call('MEMORY', 'USAGE', key, 'SAMPLES', 0) or 0) <= 524288 then
    ranks = {}
    for rank, member in ipairs(call('ZRANGE', key, 0, -1)) do ranks[member] = rank - 1 end
  end
  local gone = {}
  for at = first + 2, first + 3 * count - 1, 3 do
    local member = ARGV[at]
    local there
    if ranks then
      there, gone[#gone + 1], ranks[member] = ranks[member], ranks[member], nil
    else
      there = call('ZREM', key, member) == 1
    end
    answers[#answers + 1] = there and 'y' or 'n'
  end
  -- The last run first: ranks in front of it stay as they are.
  table.sort(gone)
  local last = #gone
  while last > 0 do
    local head = last
    while head > 1 and gone[head - 1] == gone[head] - 1 do head = head - 1 end
    call('ZREMRANGEBYRANK', key, gone[head], gone[last])
    last = head - 1
  end
end

-- Additions come before removals: one that is refused (a missing right) leaves the element in its claim.
local i, deaths = 5, 0
while i <= #ARGV do
  while ARGV[i] == 'c' and not LIVES do
    local first = i
    while ARGV[i] == 'c' and ARGV[i + 1] == ARGV[first + 1] do i = i + 3 end
    confirm(KEYS[tonumber(ARGV[first + 1])], first, (i - first) / 3)
  end
  if i > #ARGV then break end
  local body
  if ARGV[i] == 'b' then body, i = i, i + 6 + 4 * tonumber(ARGV[i + 5]) end
  local verdict, k, member = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local from, letter = KEYS[k], 'n'
  if verdict == 'c' then
    if call('ZREM', from, member) == 1 then letter = 'y' end
    i = i + 3
  elseif verdict == 'd' then
    local n, at = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
    if at > 0 then ARGV[i + 4 + at] = string.sub(member, tonumber(ARGV[i + 4 + at])) end
    if call('ZSCORE', from, member) then
      call('XADD', DEAD, '*', unpack(ARGV, i + 5, i + 4 + n))
      call('ZREM', from, member)
      deaths, letter = deaths + 1, 'y'
    end
    i = i + 5 + n
  elseif verdict == 'x' then
    if not pushes then
      letter = 'w'
    elseif call('ZSCORE', from, member) then
      call(ARGV[i + 3] == 'l' and 'LPUSH' or 'RPUSH', LIST, ARGV[i + 4])
      call('ZREM', from, member)
      letter = 'y'
    end
    i = i + 5
  elseif verdict == 'g' then
    if call('ZSCORE', from, member) then
      local element = element_of(k, member)
      if not scheduled(element) then call('ZADD', KEYS[first_due], ARGV[i + 3], element) end
      call('ZREM', from, member)
      letter = 'y'
    end
    i = i + 4
  else
    local new, to, score = ARGV[i + 3] .. element_of(k, member), RETRY, call('ZSCORE', from, member)
    if verdict == 'p' then
      -- In the claim's h: the key behind d. Scores in d are in the unit of the source, times in headers are not.
      to = KEYS[k % 2 == 0 and k + 1 or k]
      if score and k % 2 == 0 then score = ms((struct.unpack('<i8', ARGV[i + 3], 41))) end
      i = i + 4
    else
      local at = tonumber(ARGV[i + 4])
      if verdict == 't' then at = now + at end
      if score then score = ms(at) end
      i = i + 5
    end
    if score then
      call('ZADD', to, score, new)
      if to ~= from or new ~= member then call('ZREM', from, member) end
      letter = 'y'
    elseif call('ZSCORE', to, new) then
      letter = 'a'
    end
  end
  if letter == 'y' and (verdict == 'c' or verdict == 'd' or verdict == 'x' or verdict == 'g') then
    local element = element_of(k, member)
    -- A life that found no body ends with none, and may be the last after one that was delivered with the body.
    local sha1 = body and ARGV[body + 4] ~= '' and ARGV[body + 4]
    local last, ended = last_life(element, sha1)
    if last and body then remove_body(body, element, ended) end
  end
  answers[#answers + 1] = letter
end
local trimmed = 0
if deaths > 0 and ARGV[1] ~= '' then trimmed = call('XTRIM', DEAD, 'MAXLEN', ARGV[1]) end
return {now, table.concat(answers), trimmed}
