#!/usr/bin/env bash
# Signs the checksums in dist/ with minisign, by a key from outside: KEY=/path/to/minisign.key scripts/release/sign.sh. The password
# of the key is asked for.
. "$(dirname "$0")/common.sh"

command -v minisign >/dev/null || fail "find minisign: apt install minisign, or go install aead.dev/minisign/cmd/minisign@v0.3.0"
[ -f "${KEY:-}" ] || fail "find the key: KEY=${KEY:-} is no file; the maintainers have it, and it is never in the repository"
case $(realpath "$KEY") in "$PWD"/*) fail "use $KEY: a key in the checkout would be committed one day; keep it elsewhere" ;; esac
(cd dist && sha256sum --check --quiet SHA256SUMS) || fail "sign: dist/ is not what SHA256SUMS says"
minisign -S -s "$KEY" -m dist/SHA256SUMS -t "delaybridge $version, commit $(git rev-parse HEAD)"
