-- The check of all keys that a script was given, for scripts that may write any of them.
local TYPES = {'zset', 'zset', 'hash', 'hash', 'zset', 'zset', 'zset', 'hash', 'zset', 'zset', 'hash', 'zset',
  'hash'}
local function wrong_type()
  for i = 1, #KEYS do
    local kind = call('TYPE', KEYS[i]).ok
    if kind ~= TYPES[i] and kind ~= 'none' then
      return redis.error_reply('WRONGKEY ' .. KEYS[i] .. ' holds a ' .. kind .. ', expected a ' .. TYPES[i])
    end
  end
end
