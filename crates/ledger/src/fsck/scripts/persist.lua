-- Whether a key has a time to live. Repairs it: the key stays.
--
-- KEYS 1 the key
-- ARGV 1 '1' to repair
-- Returns 1 if it has one, else 0.
--
-- Sent twice: it has none any more.

if redis.call('PTTL', KEYS[1]) < 0 then return 0 end
if ARGV[1] == '1' then redis.call('PERSIST', KEYS[1]) end
return 1
