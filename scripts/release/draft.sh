#!/usr/bin/env bash
# Makes a draft of a release on the forge of what is in dist/, for the tag that is checked out. Needs gh, and GH_TOKEN with the
# right to write contents. A person compares the checksums with a build of theirs, signs them, and publishes the draft.
. "$(dirname "$0")/common.sh"

tag=v$version
[ "$(git describe --tags --exact-match 2>/dev/null)" = "$tag" ] || fail "make a draft: $tag, the version in Cargo.toml, is not the tag of this commit"
(cd dist && sha256sum --check --quiet SHA256SUMS) || fail "make a draft: dist/ is not what SHA256SUMS says"
# The part of the changelog for this version.
awk -v head="## [$version]" 'index($0, "## [") == 1 { inside = index($0, head) == 1; next } inside' CHANGELOG.md >target/release-notes.md
[ -s target/release-notes.md ] || fail "make a draft: CHANGELOG.md has nothing about $version"
gh release create "$tag" dist/* --draft --verify-tag --title "delaybridge $version" --notes-file target/release-notes.md
