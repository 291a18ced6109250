-- Removes whole claims of which every element that is left was confirmed.
--
-- KEYS d and h zset of each claim
-- ARGV for each claim, how many elements d and h hold, as far as the caller knows
-- Returns letters, one for each claim: y removed, n not there (taken over, or removed before), m there, but not with that
--      many elements: a part was taken over, or the caller does not know all of it (an entry that it cannot read). Nothing
--      was changed then.
--
-- Sent twice: the second run finds no keys; no claim ever gets the name of another one.

local bare, entries, answers = {}, {}, {}
for i = 1, #KEYS / 2 do
  bare[i] = typed(KEYS[2 * i - 1], 'ZCARD', KEYS[2 * i - 1])
  entries[i] = typed(KEYS[2 * i], 'ZCARD', KEYS[2 * i])
end
if bad then return bad end
for i = 1, #KEYS / 2 do
  if bare[i] + entries[i] == 0 then
    answers[i] = 'n'
  elseif bare[i] ~= tonumber(ARGV[2 * i - 1]) or entries[i] ~= tonumber(ARGV[2 * i]) then
    answers[i] = 'm'
  else
    call('UNLINK', KEYS[2 * i - 1], KEYS[2 * i])
    answers[i] = 'y'
  end
end
return table.concat(answers)
