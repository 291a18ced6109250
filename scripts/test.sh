#!/usr/bin/env bash
# The tests of `make test`. Builds all of them once, then runs the unit tests of the crates beside the integration tests: both wait
# for servers, due times and leases most of the time. The guards count what an element costs, and run alone.
set -euo pipefail
cd "$(dirname "$0")/.."

# All failures of a run are reported, not only those of the first executable that has one.
run() {
    "${CARGO:-cargo}" test --locked --workspace --no-fail-fast "$@"
}

# One selection of packages everywhere: with another one, cargo would build the dependencies with other features.
run --lib --bins --tests --no-run

log=$(mktemp) clients_log=$(mktemp)
trap 'rm -f "$log" "$clients_log"' EXIT
failed=0
run --lib >"$log" 2>&1 &
units=$!
# Those that setup has the tools for; `make test-clients` tests all.
scripts/clients-test.sh python node >"$clients_log" 2>&1 &
clients=$!
run --bins --test it --test chaos --test codecs --test explored --test kit --test specification --test shared_scripts --test kafka --test rabbit --test orphans || failed=1
wait "$units" || failed=1
cat "$log"
wait "$clients" || failed=1
cat "$clients_log"
run --test guard --test allocations --test memory || failed=1
exit "$failed"
