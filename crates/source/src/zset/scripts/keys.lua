-- The set, behind the keys of the ledger.
local Z = KEYS[4]
local SOURCE_TYPES = {'zset'}
