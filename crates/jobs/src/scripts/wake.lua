-- Announces that a topic has a new first job. The channel is named as the keys are, and no prefix has a brace in it.
local function wake(topic)
  call('PUBLISH', string.match(DUE, '^([^{]*)due:') .. 'wake', topic)
end
