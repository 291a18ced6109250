#!/usr/bin/env bash
# Installs what the build and the tests need and this machine lacks, from Debian's packages.
# Does nothing, and needs neither root nor network, where everything is there already.
set -euo pipefail

missing=()
need() { # need COMMAND PACKAGE...
  command -v "$1" >/dev/null || missing+=("${@:2}")
}

# The TLS library brings C and assembly code: a compiler with the headers of libc is all that it asks for.
need cc gcc libc6-dev
# The tests and the demo start servers of their own.
need redis-server redis-server
# Ends those servers should their owner die.
need setpriv util-linux
# cargo downloads over https.
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)

if ! command -v cargo >/dev/null; then
  echo "setup: find cargo: not in PATH; install Rust 1.89 or newer first (https://rustup.rs)" >&2
  exit 1
fi
# rustup's minimal profile leaves these two out.
for component in rustfmt clippy; do
  if ! "cargo-${component/rustfmt/fmt}" --version >/dev/null 2>&1; then
    if ! command -v rustup >/dev/null; then
      echo "setup: find $component: neither it nor rustup is there; install the Rust component $component" >&2
      exit 1
    fi
    rustup component add "$component"
  fi
done

[ ${#missing[@]} -gt 0 ] || exit 0

install="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" = 0 ]; then
  as_root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  as_root=(sudo -n)
else
  cat >&2 <<TEXT
setup: install ${missing[*]}: this needs root. Run this, then try again:

  sudo sh -c '$install'

TEXT
  exit 1
fi
if ! command -v apt-get >/dev/null; then
  echo "setup: install ${missing[*]}: there is no apt-get here; install what these Debian packages hold" >&2
  exit 1
fi

# Debian starts a server that it installs. Ours are private ones, so a policy forbids the start while apt works, and a
# server that was not here before is not started at the next boot either.
policy=/usr/sbin/policy-rc.d
if [[ " ${missing[*]} " == *" redis-server "* ]] && [ ! -e $policy ]; then
  trap '"${as_root[@]}" rm -f '"$policy" EXIT
  "${as_root[@]}" sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy"
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c "$install"
if [[ " ${missing[*]} " == *" redis-server "* ]] && [ -d /run/systemd/system ]; then
  "${as_root[@]}" systemctl disable --quiet redis-server.service
fi
