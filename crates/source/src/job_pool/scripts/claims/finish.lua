for b, bucket in ipairs(BUCKETS) do
  scores[b] = next_due(bucket, due[b], got[b], scores[b], sizes[b], raw)
end
added = {earliest()}
