# The same as RDelayedQueue.offer("reminder 1", 5, SECONDS) in a Java service, every ten seconds, with redis-cli.
set -eu
REDISCLI_AUTH=$(cat "$(dirname "$0")/redis-password")
export REDISCLI_AUTH
pause=
# Process 1 ignores every signal without a handler.
trap 'kill $pause; exit 0' TERM

offer='
  local now = redis.call("TIME")
  local due = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[2]
  local id = string.sub(redis.sha1hex(due .. ARGV[1]), 1, 8)
  local element = struct.pack("Bc0Lc0", 8, id, #ARGV[1], ARGV[1])
  redis.call("ZADD", KEYS[1], due, element)
  redis.call("RPUSH", KEYS[2], element)
  redis.call("PUBLISH", ARGV[3], due)'
n=0
while :; do
  n=$((n + 1))
  # Redis may be down, as for a Java service.
  redis-cli -h "$REDIS_HOST" -p "${REDIS_PORT:-6379}" --user "$REDIS_USER" EVAL "$offer" \
    2 'redisson_delay_queue_timeout:{reminders}' 'redisson_delay_queue:{reminders}' \
    "reminder $n" 5000 'redisson_delay_queue_channel:{reminders}' || true
  # In the background, because the shell handles no signal while it waits for a command.
  sleep 10 &
  pause=$!
  wait
done
