#!/usr/bin/env bash
# Records types.tsv, classes.yaml and unread.tsv in this folder: the payloads of five versions of Redisson for each type, the
# declarations of the classes in them, and payloads of the newest version that are not decoded. Needs Java 17 and the jars that
# `scripts/setup.sh redisson` downloads.
set -euo pipefail
cd "$(dirname "$0")"
export LC_ALL=C
root=$(git rev-parse --show-toplevel)
jars=${XDG_CACHE_HOME:-$HOME/.cache}/delaybridge/redisson
versions="3.16.8 3.20.1 3.21.1 3.45.1 4.7.0"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

class_path() {
  awk -v jars="$jars" '{ printf "%s%s/%s", (NR > 1 ? ":" : ""), jars, $2 }' "$root/tests/brokers/redisson/$1.sha256"
}

javac -proc:none -nowarn -encoding UTF-8 -cp "$(class_path 3.16.8)" -d "$work/classes" com/example/{Recorder,Shop}.java
for version in $versions; do
  java -cp "$work/classes:$(class_path "$version")" com.example.Recorder "$version" >"$work/$version.tsv" 2>"$work/$version.log"
  grep -E ' refuses | has no ' "$work/$version.log" | cut -c1-160 || true
done
# Versions that wrote the same bytes share a line.
cat "$work"/*.tsv |
  awk -F'\t' -v OFS='\t' '{ key = $1 OFS $2 OFS $3 OFS $4; if (!(key in of)) order[++n] = key; of[key] = of[key] (of[key] ? "," : "") $5 }
    END { for (i = 1; i <= n; i++) print order[i], of[order[i]] }' >types.tsv
java -cp "$work/classes:$(class_path 4.7.0)" "$root/tools/KryoClasses.java" 'com.example.Shop$*' 2>/dev/null >classes.yaml
# A separate class: the methods that it overrides do not exist in older versions.
javac -proc:none -nowarn -encoding UTF-8 -cp "$(class_path 4.7.0)" -d "$work/unread" com/example/Unread.java
java -cp "$work/unread:$(class_path 4.7.0)" com.example.Unread 2>/dev/null >unread.tsv
wc -l types.tsv classes.yaml
