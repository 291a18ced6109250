#!/usr/bin/env bash
# Packs the release binaries as target/deb/delaybridge_VERSION_ARCH.deb and prints where it is. `deb.sh arm64` packs the one for 64-bit
# ARM (build.sh arm64) in target/deb-arm64; manual pages and completions are printed by this machine's.
#
# By debhelper: what runs at installation, upgrade and removal is Debian's own and known to its administrators, the
# dependencies are read from the binary, and what is in /etc becomes a conffile by itself. cargo-deb does most of this
# again in its own way, and would have to be compiled.
. "$(dirname "$0")/common.sh"

folder=target/deb${1:+-$1}
packed=$binary options=()
case ${1:-} in
  "") ;;
  arm64)
    # OpenSSL is inside.
    export OPENSSL_INSIDE=1
    packed=${ARM64_BINARY:-target/dist/aarch64-unknown-linux-gnu/release/delaybridge} arch=arm64
    # Without the check of build dependencies, which would want a compiler and a C library that nothing here uses.
    options=(--host-arch arm64 --no-check-builddeps)
    ;;
  *) fail "pack $1: packages are made for arm64, and for this machine without an argument" ;;
esac
for file in "$binary" "$packed" "$packed-tools"; do
  [ -x "$file" ] || fail "find $file: build it with scripts/release/build.sh${1:+, and with build.sh $1}"
done
stage=$folder/stage
rm -rf "$stage"
mkdir -p "$stage/man" "$stage/completions"
cp -r deploy/debian "$stage/debian"
# debhelper takes these two by their names.
cp deploy/systemd/delaybridge.{service,sysusers} "$stage/debian/"
cp "$packed" "$stage/delaybridge"
cp "$packed-tools" "$stage/delaybridge-tools"
cp README.md CHANGELOG.md deploy/systemd/credentials.conf "$stage"
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

log=$folder/build.log
(cd "$stage" && dpkg-buildpackage --build=binary --unsigned-changes --unsigned-source "${options[@]}") >"$log" 2>&1 ||
  fail "build the package: $(tail -20 "$log")"
echo "$folder/delaybridge_${version}_$arch.deb"
