for b, bucket in ipairs(BUCKETS) do
  if got[b] > 0 then open(bucket) end
end
for l, list in ipairs(LISTS) do
  if drained[l] > 0 then call('LTRIM', list, 0, -1) end
end
