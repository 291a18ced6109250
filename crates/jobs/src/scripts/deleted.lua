-- The member of GONE that remembers the contents of a message of an input: an id of its client's, and the SHA-1 of its body. With
-- `=` it was added, with `!` it was deleted. No id has these letters.
local function mark(letter, id, hash)
  return letter .. id .. ' ' .. hash
end
