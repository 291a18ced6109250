# What the scripts of a release agree on; sourced by them.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() {
  echo "release: $*" >&2
  exit 1
}

cargo=${CARGO:-cargo}
binary=${BINARY:-target/dist/release/delaybridge}
# The version in Cargo.toml, which a test of the package may replace.
version=${VERSION:-$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)}
arch=$(dpkg --print-architecture)
# The package's maintainer.
maintainer=$(sed -n 's/^Maintainer: //p' deploy/debian/control)
# The time that everything generated carries: that of the commit, so that it can be made again. Not exported: the C in the
# crates holds no date, but would be recompiled with each, in the build of the tests too. The OpenSSL of a target holds one, so build.sh
# exports it there. dpkg uses the changelog's.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

# Name and version of every crate with code in the binary: no build script, no procedural macro, no test. With OPENSSL_INSIDE also the
# one that brings OpenSSL, which cargo takes for a tool of the build.
crates() {
  {
    "$cargo" tree --locked --package delaybridge --edges normal,no-proc-macro --prefix none --format '{p}' |
      sed 's/^\([^ ]*\) v\([^ ]*\).*/\1 \2/'
    [ -z "${OPENSSL_INSIDE:-}" ] || sed -n '/^name = "openssl-src"$/ { n; s/version = "\(.*\)"/openssl-src \1/p }' Cargo.lock
  } | sort -u
}
