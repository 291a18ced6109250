#!/usr/bin/env bash
# The tests of `make test`: builds all of them once and runs them side by side (tests/suite), then the examples in the
# documentation of the code and damaged input.
#
# usage: scripts/test.sh [--strict]
#   --strict    a failed test is not run once more
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

# Also after a failure, so that one run reports all of them.
failed=0
"$cargo" run --quiet --locked --package suite -- "$@" || failed=1
exit "$failed"
