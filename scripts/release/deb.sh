#!/usr/bin/env bash
# Packs the release binary as target/deb/delaybridge_VERSION_ARCH.deb and prints where it is.
#
# By debhelper: what runs at installation, upgrade and removal is Debian's own and known to its administrators, the
# dependencies are read from the binary, and what is in /etc becomes a conffile by itself. cargo-deb does most of this
# again in its own way, and would have to be compiled.
. "$(dirname "$0")/common.sh"

[ -x "$binary" ] || fail "find $binary: build it with scripts/release/build.sh"
stage=target/deb/stage
rm -rf "$stage"
mkdir -p "$stage/man" "$stage/completions"
cp -r deploy/debian "$stage/debian"
# debhelper takes these two by their names.
cp deploy/systemd/delaybridge.{service,sysusers} "$stage/debian/"
cp "$binary" README.md CHANGELOG.md deploy/systemd/credentials.conf "$stage"
cp -r docs "$stage/docs"
cp "${EXAMPLE:-config.example.yaml}" "$stage/delaybridge.yaml"
"$binary" man "$stage/man"
"$binary" completions bash >"$stage/completions/delaybridge"
"$binary" completions zsh >"$stage/completions/_delaybridge"
"$binary" completions fish >"$stage/completions/delaybridge.fish"
scripts/release/licences.sh >"$stage/THIRD-PARTY-LICENCES.txt"
cat >"$stage/debian/changelog" <<TEXT
delaybridge ($version) unstable; urgency=medium

  * What has changed is in CHANGELOG.md.

 -- $maintainer  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
TEXT

log=target/deb/build.log
(cd "$stage" && dpkg-buildpackage --build=binary --unsigned-changes --unsigned-source) >"$log" 2>&1 ||
  fail "build the package: $(tail -20 "$log")"
echo "target/deb/delaybridge_${version}_$arch.deb"
