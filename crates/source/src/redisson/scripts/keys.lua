-- Redisson's keys, behind those of the ledger.
local Z, L, READY, GHOSTS, TURN, SWEEP = unpack(KEYS, 4)
local SOURCE_TYPES = {'zset', 'list', 'list', 'set', 'set', 'hash'}
