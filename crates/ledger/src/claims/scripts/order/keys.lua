-- The state hash of a queue in order. It has who delivers, and until when: never earlier than the end of any of its leases.
local ORDER = table.remove(KEYS)
