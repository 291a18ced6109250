-- Takes over what is in a claim with a lease that is over: all of it, or what there is room for.
--
-- KEYS 1 leases zset, 2 d and 3 h zset of the old claim, 4 d and 5 h zset of the new one
-- ARGV 1 old name, 2 new name (with one expiry more), 3 not_after (ms), 4 lease (ms), 5 most elements (1 if they may kill
--      the process), 6 most bytes, 7 size of the largest element met lately
-- Returns {'late', now} when it ran after not_after; {'twice', now} when it ran before, and nothing was done now;
--      {'nothing', now} when the old lease is gone, or not over, or held nothing and is gone now; else
--      {'ok', now, {element, due time, ...}, {entry, time, ...}, how many stay in the old claim}.
--
-- Sent twice: the new name has a lease, until bury removes it after not_after, or the old one is gone. What stays in the
-- old claim is under the old name: a late verdict of its owner is still welcome, one on what was taken finds nothing.

-- For a queue in order, the last of KEYS is the state hash, and {'nothing', now} is returned while another daemon has the
-- order.

--#include reading.lua

--#order keys
local LEASES, OLD_D, OLD_H, D, H = unpack(KEYS)
local now = clock()
if now > tonumber(ARGV[3]) then return {'late', now} end
local ends = typed(LEASES, 'ZMSCORE', LEASES, ARGV[1], ARGV[2])
local n_d, n_h = typed(OLD_D, 'ZCARD', OLD_D), typed(OLD_H, 'ZCARD', OLD_H)
if bad then return bad end
if ends[2] or call('EXISTS', D, H) > 0 then return {'twice', now} end
if not ends[1] or tonumber(ends[1]) > now then return {'nothing', now} end
--#order take_over
if n_d + n_h == 0 then
  call('ZREM', LEASES, ARGV[1])
  return {'nothing', now}
end

bytes_left, largest = tonumber(ARGV[6]), tonumber(ARGV[7])
local most, got_h, got_d, entries, elements = tonumber(ARGV[5]), 0, 0, {}, {}
-- What failed before goes first.
if n_h > 0 then got_h, entries = read_zset(OLD_H, math.min(most, n_h), {}) end
if n_d > 0 and got_h == n_h and got_h < most then got_d, elements = read_zset(OLD_D, math.min(most - got_h, n_d), {}) end

-- The new lease comes before the keys that it is for, the old one goes after them.
open(LEASES)
call('ZADD', LEASES, ms(now + tonumber(ARGV[4])), ARGV[2])
if got_d + got_h == n_d + n_h then
  if n_d > 0 then call('RENAME', OLD_D, D) end
  if n_h > 0 then call('RENAME', OLD_H, H) end
  call('ZREM', LEASES, ARGV[1])
else
  if got_d > 0 then
    open(OLD_D)
    call('ZRANGESTORE', D, OLD_D, 0, got_d - 1)
    call('ZREMRANGEBYRANK', OLD_D, 0, got_d - 1)
  end
  if got_h > 0 then
    open(OLD_H)
    call('ZRANGESTORE', H, OLD_H, 0, got_h - 1)
    call('ZREMRANGEBYRANK', OLD_H, 0, got_h - 1)
  end
end
return {'ok', now, elements, entries, n_d + n_h - got_d - got_h}
