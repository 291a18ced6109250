#!/usr/bin/env bash
# Builds the release without a network: crates are fetched first, then the build runs in a namespace that has none. A build script
# that would fetch something fails.
. "$(dirname "$0")/common.sh"

"$cargo" fetch --locked
command -v unshare >/dev/null || fail "find unshare: install util-linux"
unshare --net --map-root-user true 2>/dev/null || fail "make a namespace without a network: not allowed here; run as root"
CARGO_NET_OFFLINE=true unshare --net --map-root-user scripts/release/build.sh
