#!/usr/bin/env bash
# Makes the pictures of the operators' page in docs/: a Redis with some queues, a daemon, and Chromium without a window. Needs
# redis-server, chromium, python3 and pngquant, and a daemon that was built. It looks at the result with nobody's eyes: do that.
#
# usage: scripts/pictures.sh [DAEMON]    the binary; target/release/delaybridge or target/debug/delaybridge if omitted
set -euo pipefail

cd "$(dirname "$0")/.."

fail() {
  echo "pictures: $*" >&2
  exit 1
}

daemon=${1:-}
for built in target/release/delaybridge target/debug/delaybridge; do
  [ -n "$daemon" ] || [ ! -x "$built" ] || daemon=$built
done
[ -n "$daemon" ] || fail "build the daemon first: cargo build"
for tool in redis-server redis-cli chromium python3 pngquant; do
  command -v "$tool" >/dev/null || fail "install $tool: make setup brings all but pngquant, which is a Debian package"
done

folder=$(mktemp -d)
children=()
finish() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
redis=$(free_port)
metrics=$(free_port)
page=$(free_port)

redis-server --port "$redis" --bind 127.0.0.1 --save '' --dir "$folder" >"$folder/redis.log" 2>&1 &
children+=($!)
until redis-cli -p "$redis" ping >/dev/null 2>&1; do sleep 0.1; done

queue() { # queue NAME SINK MORE
  echo "  $1: { source: { zset: { key: $1, score: ms, id: '\${payload.id}' } }, codec: json, to: [{ sink: $2 }]$3 }"
}
cat >"$folder/delaybridge.yaml" <<YAML
http: { listen: "127.0.0.1:$metrics", admin: { listen: "127.0.0.1:$page" } }
redis: { url: "redis://127.0.0.1:$redis/0" }
retry: { default: { max_attempts: 3, initial_interval: 2s } }
sinks:
  shop: { redis: { list: shop } }
  hooks: { http: { url: "http://127.0.0.1:1/orders/\${id}" } }
queues:
$(queue order_timeout shop '')
$(queue reminders shop ', max_rate: 40/s')
$(queue webhooks hooks '')
$(queue invoices shop '')
$(queue newsletters shop '')
YAML

# COUNT elements of QUEUE from FROM seconds ahead on, one every STEP milliseconds.
offer() { # offer QUEUE COUNT FROM STEP
  python3 - "$@" <<'PYTHON' | redis-cli -p "$redis" --pipe >/dev/null
import sys, time
queue, count, start, step = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
for n in range(count):
    due = int((time.time() + start) * 1000 + n * step)
    print(f'ZADD {queue} {due} \'{{"id":"{queue[:2]}{n}-{due % 10007}","customer":{n % 97},"amount":{n * 37 % 500}}}\'')
PYTHON
}
offer order_timeout 1500 2 300
offer order_timeout 900 9000 4000
offer reminders 3200 2 1
offer reminders 5000 1800 1
offer webhooks 12 -45 100
offer invoices 400 7200 60000
offer newsletters 20000 21600 5

"$daemon" run --config "$folder/delaybridge.yaml" >"$folder/daemon.log" 2>&1 &
children+=($!)
until curl -sf "http://127.0.0.1:$page/v1/queues" >/dev/null; do sleep 0.2; done
curl -sf -X POST "http://127.0.0.1:$page/v1/queues/newsletters/pause" -d '{"why": "the shop is migrated", "for": "2h"}' >/dev/null
# The history has its first minutes then.
echo "pictures: waiting two minutes and a half, for a history to be drawn"
sleep 150
offer reminders 900 0 1

shot() { # shot FILE WIDTH HEIGHT PATH [FLAG]...
  local file=docs/$1 width=$2 height=$3 path=$4
  shift 4
  chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --no-proxy-server "$@" \
    --user-data-dir="$folder/profile" --window-size="$width,$height" --screenshot="$folder/shot.png" \
    "http://127.0.0.1:$page/$path" >"$folder/chromium.log" 2>&1 || fail "take $file: $(tail -n 3 "$folder/chromium.log")"
  pngquant --force --speed 1 --output "$file" 64 "$folder/shot.png"
  [ "$(stat -c %s "$file")" -lt 60000 ] || fail "$file is larger than 60 kB"
  echo "pictures: $file, $(stat -c %s "$file") bytes"
}
shot admin-overview.png 1100 820 '?still=1'
shot admin-queue.png 1100 1250 'queues/reminders?still=1'
# Dark, as a phone at night.
shot admin-phone.png 500 900 'queues/webhooks?still=1' --blink-settings=preferredColorScheme=0
# Recording starts when someone looks.
curl -sf "http://127.0.0.1:$page/events" >/dev/null
offer invoices 6 1 700
sleep 6
shot admin-events.png 1100 520 'events?still=1'
