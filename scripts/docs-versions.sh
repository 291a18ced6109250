#!/usr/bin/env bash
# Builds the documentation of every release, and of this commit as `next`, into target/docs-versions, with a page that lists them:
# what a web server shows.
#
# usage: scripts/docs-versions.sh [NAME=REF]...    instead of all tags v*
set -euo pipefail

cd "$(dirname "$0")/.."
out=$PWD/target/docs-versions
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The newest first.
versions=("$@")
if [ $# = 0 ]; then
  mapfile -t versions < <(git tag --list 'v*' --sort -version:refname | sed 's/^v\(.*\)/\1=v\1/')
fi

rm -rf "$out"
mkdir -p "$out"
links=
for version in next=HEAD "${versions[@]}"; do
  name=${version%%=*} ref=${version#*=}
  mkdir "$work/$name"
  git archive "$ref" | tar -C "$work/$name" -x
  # By its own script: pages and the script belong together.
  (cd "$work/$name" && scripts/docs.sh >/dev/null) || { echo "docs: build the pages of $ref: see above" >&2; exit 1; }
  mv "$work/$name/target/docs/site" "$out/$name"
  rm -rf "${work:?}/$name"
  links+="<li><a href=\"$name/\">$name</a> ($(git log -1 --format=%cs "$ref"))</li>"
done
cat >"$out/index.html" <<HTML
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>delaybridge</title>
<h1>delaybridge</h1><p>The documentation by version; <em>next</em> is not released.</p><ul>$links</ul></html>
HTML
echo "docs: $out/index.html"
