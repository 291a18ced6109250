#!/usr/bin/env bash
# Builds target/dist/release/delaybridge so that the same commit gives the same bytes in any directory, for the same
# compilers and system libraries (docs/releasing.md).
#
# What would differ is the paths that compilers write down for panics, assertions and debugging: they are replaced by
# names of ours, in Rust and in the C of librdkafka, zstd, zlib and aws-lc. cargo's own way (trim-paths) is unstable.
set -euo pipefail

cd "$(dirname "$0")/../.."
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export CARGO_TARGET_DIR=$PWD/target/dist

# Rust separates its flags with a special character, but C flags are in one line.
case $cargo_home$PWD in
  *[[:space:]]*)
    echo "build.sh: build in $PWD: a path with a blank (this one, or CARGO_HOME=$cargo_home) cannot be given to the C" \
      "compilers; use a checkout without one" >&2
    exit 1 ;;
esac

rust=() c=()
for map in "$cargo_home=/cargo" "$PWD=/delaybridge"; do
  rust+=("--remap-path-prefix=$map")
  c+=("-ffile-prefix-map=$map")
done
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${rust[*]}")
export CARGO_ENCODED_RUSTFLAGS
# The C parts parse answers of brokers. Debian's compilers protect nothing by themselves; Rust checks its bounds, and the linker does
# the rest (scripts/release/hardening.sh).
c+=(-fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
export CFLAGS="${c[*]}" CXXFLAGS="${c[*]}"
# The revision in delaybridge_build_info: the full name of the commit, with any tags.
DELAYBRIDGE_REVISION=${DELAYBRIDGE_REVISION:-$(git describe --always --dirty --abbrev=40 --exclude '*')}
export DELAYBRIDGE_REVISION

"${CARGO:-cargo}" build --release --locked --bin delaybridge
scripts/release/hardening.sh "$CARGO_TARGET_DIR/release/delaybridge" >/dev/null
# crates/pipeline/src/fault_injection: the lies that tests plant are in debug builds alone.
if grep -q DELAYBRIDGE_PLANT "$CARGO_TARGET_DIR/release/delaybridge"; then
  echo "build.sh: the release binary can be made to lie: it was built with debug assertions; see crates/pipeline/src/fault_injection" >&2
  exit 1
fi
