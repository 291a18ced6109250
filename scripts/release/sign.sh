#!/usr/bin/env bash
# Signs the checksums in dist/ by keys from outside: with minisign by KEY=/path/to/minisign.key, with cosign by
# COSIGN_KEY=/path/to/cosign.key, or with both. The password of a key is asked for.
. "$(dirname "$0")/common.sh"

# outside NAME FILE
outside() {
  [ -f "$2" ] || fail "find the key: $1=$2 is no file; the maintainers have it, and it is never in the repository"
  case $(realpath "$2") in "$PWD"/*) fail "use $2: a key in the checkout would be committed one day; keep it elsewhere" ;; esac
}

[ -n "${KEY:-}${COSIGN_KEY:-}" ] || fail "find a key: give KEY=/path/to/minisign.key, COSIGN_KEY=/path/to/cosign.key, or both"
(cd dist && sha256sum --check --quiet SHA256SUMS) || fail "sign: dist/ is not what SHA256SUMS says"
if [ -n "${KEY:-}" ]; then
  command -v minisign >/dev/null || fail "find minisign: apt install minisign, or go install aead.dev/minisign/cmd/minisign@v0.3.0"
  outside KEY "$KEY"
  minisign -S -s "$KEY" -m dist/SHA256SUMS -t "delaybridge $version, commit $(git rev-parse HEAD)"
fi
if [ -n "${COSIGN_KEY:-}" ]; then
  command -v cosign >/dev/null || fail "find cosign: go install github.com/sigstore/cosign/v2/cmd/cosign@v2.5.3"
  outside COSIGN_KEY "$COSIGN_KEY"
  # Nothing is sent to a public log: whoever wants the entry leaves the option out.
  cosign sign-blob --yes --tlog-upload=false --key "$COSIGN_KEY" --output-signature dist/SHA256SUMS.sig dist/SHA256SUMS >/dev/null
  # cosign writes it for its owner alone, and a web server would not read it.
  chmod 644 dist/SHA256SUMS.sig
fi
