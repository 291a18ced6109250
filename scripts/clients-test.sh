#!/usr/bin/env bash
# Tests the clients in clients/, each with the tools of its language.
#
# usage: scripts/clients-test.sh [PART]...
#   python, node   their tests; scripts/setup.sh fetches what they import
#   go, java       their tests; they need Go 1.21 or newer, and Maven, which fetch what is missing
#   kit            the conformance kit with the producers of all languages, Rust too
#   mixed          all producers on one queue at once, for four times a minute (clients/mixed.py)
# All of them by default, apart from mixed. The tests start servers of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cache=${DELAYBRIDGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/delaybridge}
binary=${DELAYBRIDGE_BINARY:-$root/target/debug/delaybridge}
redisson=3.52.0 # the version that the kit drives

fail() {
  echo "clients: $*" >&2
  exit 1
}
tool() { # tool COMMAND HOW-TO-GET-IT
  command -v "$1" >/dev/null || fail "find $1: not in PATH; $2"
}
go_is_new_enough() {
  tool go "install Go 1.21 or newer"
  local version
  version=$(go env GOVERSION)
  [ "$(printf '%s\n' go1.21 "$version" | sort -V | head -1)" = go1.21 ] || fail "find Go 1.21 or newer: go is $version"
}
# The folder with what the two import, if it is complete.
fetched() {
  [ -e "$cache/clients/complete" ] || fail "find $cache/clients/complete: not there; run scripts/setup.sh clients"
  # Node.js looks for packages in the folders above a file only.
  [ -e clients/node/node_modules ] || ln -sfn "$cache/clients/node_modules" clients/node/node_modules
}
python() {
  PYTHONPATH=$root/clients/python/src PYTHONDONTWRITEBYTECODE=1 "$cache/clients/python/bin/python" "$@"
}

test_python() {
  fetched
  (cd clients/python && python -m pytest -q -p no:cacheprovider)
}
test_node() {
  fetched
  (cd clients/node && node node_modules/typescript/bin/tsc --noEmit -p . && node --test test/)
}
test_go() {
  go_is_new_enough
  (cd clients/go && go vet ./... && go test ./...)
}
test_java() {
  tool mvn "install Maven (Debian: maven)"
  DELAYBRIDGE_BINARY=$([ ! -x "$binary" ] || echo "$binary") mvn -q -B -f clients/java -pl client,jobs test
  mvn -q -B -f examples/orders package # the service of the tutorials
}

# A folder for the adapter of Go, and what else has to be built. That of Java builds itself.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build_adapters() {
  fetched
  go_is_new_enough
  tool mvn "install Maven (Debian: maven)"
  "${CARGO:-cargo}" build --locked --bins
  "${CARGO:-cargo}" build --locked -p delaybridge-offers --example adapter
  (cd clients/go && go build -o "$folder/go-adapter" ./adapter)
}

test_kit() {
  build_adapters
  local port redis failed=0
  port=$(python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" >"$folder/redis.log" &
  redis=$!
  # shellcheck disable=SC2064 # as they are now
  trap "kill $redis" EXIT
  export PYTHONPATH=$root/clients/python/src PYTHONDONTWRITEBYTECODE=1
  kit() { # kit NAME COMMAND...
    if "$binary" conformance --redis-url "redis://127.0.0.1:$port" -- "${@:2}" >"$folder/report" 2>"$folder/log"; then
      echo "kit: $1: $(tail -n 1 "$folder/report")"
    else
      echo "kit: $1 failed" >&2
      grep -A 1 FAIL "$folder/report" >&2 || cat "$folder/log" "$folder/report" >&2
      failed=1
    fi
  }
  kit rust target/debug/examples/adapter
  kit python "$cache/clients/python/bin/python" clients/python/adapter.py
  kit "python, asyncio" "$cache/clients/python/bin/python" clients/python/adapter.py --asyncio
  kit go "$folder/go-adapter"
  kit "node, ioredis" node clients/node/adapter.mjs ioredis
  kit "node, redis" node clients/node/adapter.mjs redis
  kit "java, redisson $redisson" clients/java/adapter/run.sh "$redisson" redisson
  kit "java, lettuce" clients/java/adapter/run.sh "$redisson" lettuce
  [ $failed = 0 ] || exit 1
}
test_mixed() {
  build_adapters
  local layout kill
  for kill in "" --kill; do
    for layout in current old; do
      # shellcheck disable=SC2086 # nothing, or a word
      python clients/mixed.py --daemon "$binary" --go "$folder/go-adapter" --layout "$layout" $kill
    done
  done
}

[ $# -gt 0 ] || set -- python node go java kit
scripts/clients-lua.sh
for part in "$@"; do
  case $part in
  python | node | go | java | kit | mixed) ;;
  *) fail "unknown part $part: python, node, go, java, kit and mixed are known" ;;
  esac
done
for part in "$@"; do
  echo "clients: $part"
  # Not in the condition of anything: set -e holds within it.
  (
    set -e
    "test_$part"
  )
done
