#!/usr/bin/env bash
# Builds the release binaries so that the same commit gives the same bytes in any directory, for the same compilers and system libraries.
# target/dist/release/delaybridge for this machine, target/dist/TRIPLE/release/delaybridge with a target, and delaybridge-tools beside it:
#   build.sh arm64   for 64-bit ARM with glibc; needs g++-aarch64-linux-gnu
#   build.sh musl    for amd64 and any distribution, linked statically; needs musl-tools, on amd64
#
# What would differ is the paths that compilers write down for panics, assertions and debugging: they are replaced by
# names of ours, in Rust and in the C of librdkafka, zstd, zlib and aws-lc. cargo's own way (trim-paths) is unstable.
set -euo pipefail

cd "$(dirname "$0")/../.."

# librdkafka's configure asks CC and CXX alone (its C++ is built, and not used: musl needs none of its own); the crates that compile C
# find the compiler of a target by its name.
options=() triple=
case ${1:-} in
  "") ;;
  # With pages of 4 KiB, as the kernels of this machine have, jemalloc would not start on one with 64 KiB.
  arm64) export JEMALLOC_SYS_WITH_LG_PAGE=16; triple=aarch64-unknown-linux-gnu cc=aarch64-linux-gnu-gcc cxx=aarch64-linux-gnu-g++ package=g++-aarch64-linux-gnu ;;
  musl) triple=x86_64-unknown-linux-musl cc=musl-gcc cxx=g++ package=musl-tools ;;
  *) echo "build.sh: $1 is no target: arm64 and musl are, and none for this machine" >&2; exit 1 ;;
esac
if [ -n "$triple" ]; then
  command -v "$cc" >/dev/null || { echo "build.sh: find $cc: apt install $package" >&2; exit 1; }
  # OpenSSL of the other system is not here: it is linked in.
  options=(--target "$triple" --features vendored-openssl)
  export CC=$cc CXX=$cxx HOST_CC=${HOST_CC:-gcc} HOST_CXX=${HOST_CXX:-g++}
  # For musl, Rust brings what a static binary starts with; musl-gcc would start it as a dynamic one.
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
fi
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export CARGO_TARGET_DIR=$PWD/target/dist

# Rust separates its flags with a special character, but C flags are in one line.
case $cargo_home$PWD in
  *[[:space:]]*)
    echo "build.sh: build in $PWD: a path with a blank (this one, or CARGO_HOME=$cargo_home) cannot be given to the C" \
      "compilers; use a checkout without one" >&2
    exit 1 ;;
esac

rust=() maps=() c=()
for map in "$cargo_home=/cargo" "$PWD=/delaybridge"; do
  rust+=("--remap-path-prefix=$map")
  maps+=("-ffile-prefix-map=$map")
done
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${rust[*]}")
export CARGO_ENCODED_RUSTFLAGS
if [ -n "$triple" ]; then
  # OpenSSL writes down the time of its build: that of the commit.
  export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
  export PREFIX_MAPS="${maps[*]}" COMPILERS
  COMPILERS=$(dirname "$(command -v "$cc")")
  mkdir -p "$CARGO_TARGET_DIR/compilers"
  for name in "$cc" "$cxx"; do ln -sf "$PWD/scripts/release/compiler.sh" "$CARGO_TARGET_DIR/compilers/$name"; done
  export PATH=$CARGO_TARGET_DIR/compilers:$PATH
else
  c=("${maps[@]}")
fi
# The C parts parse answers of brokers. Debian's compilers protect nothing by themselves; Rust checks its bounds, and the linker does
# the rest (scripts/release/hardening.sh).
c+=(-fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
export CFLAGS="${c[*]}" CXXFLAGS="${c[*]}"
# The revision in delaybridge_build_info: the full name of the commit, with any tags.
DELAYBRIDGE_REVISION=${DELAYBRIDGE_REVISION:-$(git describe --always --dirty --abbrev=40 --exclude '*')}
export DELAYBRIDGE_REVISION

"${CARGO:-cargo}" build --release --locked --bins "${options[@]}"
built=$CARGO_TARGET_DIR/${triple:+$triple/}release/delaybridge
for binary in "$built" "$built-tools"; do
  scripts/release/hardening.sh "$binary" >/dev/null
  if [ "${1:-}" = musl ] && readelf --wide --program-headers "$binary" | grep -q INTERP; then
    echo "build.sh: link $binary: it is not static" >&2
    exit 1
  fi
done
# crates/pipeline/src/fault_injection: the lies that tests plant are in debug builds alone.
if grep -q DELAYBRIDGE_PLANT "$built"; then
  echo "build.sh: the release binary can be made to lie: it was built with debug assertions; see crates/pipeline/src/fault_injection" >&2
  exit 1
fi
