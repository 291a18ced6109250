#!/usr/bin/env bash
# Compares the copies of the producers' scripts with clients/lua. With --write it makes the copies.
set -euo pipefail
cd "$(dirname "$0")/.."

copies=(
  clients/python/src/delaybridge/lua
  clients/go/lua
  clients/node/lua
  clients/java/client/src/main/resources/io/delaybridge/client
)
different=0
for folder in "${copies[@]}"; do
  [ -d "${folder%/*}" ] || continue
  for script in clients/lua/*.lua; do
    copy=$folder/$(basename "$script")
    if [ "${1:-}" = --write ]; then
      install -D -m 644 "$script" "$copy"
    elif ! cmp -s "$script" "$copy"; then
      echo "clients-lua: $copy is not $script; run scripts/clients-lua.sh --write" >&2
      different=1
    fi
  done
done
exit "$different"
