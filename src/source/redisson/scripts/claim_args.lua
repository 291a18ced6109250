-- What the daemon asks of Redisson's half of a claim: see claim.lua for the arguments.

-- What may be taken of Z.
local horizon = string.format('%.0f', now + tonumber(ARGV[16]))
local delayed, ready = string.find(ARGV[13], 'd', 1, true), string.find(ARGV[13], 'r', 1, true)
local exact = ARGV[14] == 'exact'
