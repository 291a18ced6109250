-- The set, behind the keys of the ledger.
local Z = KEYS[5]
