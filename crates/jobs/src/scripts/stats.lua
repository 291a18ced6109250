-- Counts the jobs by state. Read-only.
--
-- Returns {now, delay, ready, reserved, reserved beyond their time to run, dead, due time of the first job that waits or '',
--      time of death of the oldest dead job or '', 1 if the topic is paused, 1 if the topic exists}.

--#include types.lua

local now = clock()
local wrong = wrong_type()
if wrong then return wrong end

local ready = call('ZCOUNT', DUE, '-inf', ms(now))
local head, oldest = call('ZRANGE', DUE, 0, 0, 'WITHSCORES'), call('ZRANGE', DEAD, 0, 0, 'WITHSCORES')
return {now, call('ZCARD', DUE) - ready, ready, call('ZCARD', RESERVED), call('ZCOUNT', RESERVED, '-inf', ms(now)),
  call('ZCARD', DEAD), head[2] or '', oldest[2] or '', call('HGET', TOPIC, 'paused') and 1 or 0,
  call('EXISTS', TOPIC)}
