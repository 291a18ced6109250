-- Redisson's keys, behind those of the ledger.
local Z, L, READY, GHOSTS, TURN, SWEEP, PERMITS = unpack(KEYS, 5)
