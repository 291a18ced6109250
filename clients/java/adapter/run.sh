#!/usr/bin/env bash
# Runs the adapter of one library with one version of Redisson: run.sh VERSION reference|redisson|lettuce|spring
# Builds it before, if that version is not there. `reference` is Redisson itself.
set -euo pipefail
[ $# = 2 ] || { echo "usage: run.sh VERSION reference|redisson|lettuce|spring" >&2; exit 2; }
cd "$(dirname "$0")"
if [ ! -e "target/$1/complete" ]; then
  mvn -q -B -f .. -pl adapter -am package -Dmaven.test.skip=true -Dredisson.version="$1" 1>&2
  touch "target/$1/complete"
fi
class=Adapter
[ "$2" != reference ] || class=Reference
exec java -Xmx1g -XX:+UseSerialGC -Dfile.encoding=UTF-8 -cp "target/$1/classes:target/$1/lib/*" "io.delaybridge.adapter.$class" "$2"
