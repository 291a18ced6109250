-- Takes ready jobs with a priority, in their order. Returns whether no more may be taken. Members that do not wait any more
-- are collected in `left`, at most a hundred.
--#include priority.lua
local function take_urgent(left)
  local from, skip = 0, 0
  while #left < 100 do
    local rows = typed(URGENT, 'ZRANGE', ms(from), '+inf', 'BYSCORE', 'LIMIT', skip, most - #ids, 'WITHSCORES')
    if not rows or not rows[1] then return false end
    for i = 1, #rows, 2 do
      local id, score = rows[i], tonumber(rows[i + 1])
      local range = score - score % RANGE
      if range > from then from, skip = range, 0 end
      if score - range > now then
        -- Nothing else of this priority is due.
        from, skip = range + RANGE, 0
        break
      end
      skip = skip + 1
      local due = typed(DUE, 'ZSCORE', id)
      if due and tonumber(due) <= now then
        if is_full(id) then return true end
        ids[#ids + 1], taken[id] = id, true
        if #ids == most then return true end
      else
        left[#left + 1] = id
      end
    end
  end
  return false
end
