#!/usr/bin/env bash
# A compiler in front of the one with the same name in COMPILERS: build.sh links to it. Replaces the paths of the build in what is
# compiled (PREFIX_MAPS). OpenSSL writes down the flags that its compiler was given, and the folders that it would be installed in, so
# these cannot be flags that the crates are given, as they are without a target.
set -euo pipefail

args=()
for arg; do
  case $arg in
    # Nothing was there either: a static OpenSSL is not installed.
    -DENGINESDIR=* | -DMODULESDIR=*) arg=${arg%%=*}='"/nonexistent"' ;;
  esac
  args+=("$arg")
done
# shellcheck disable=SC2086 # words without blanks: build.sh checks the paths
exec "$COMPILERS/${0##*/}" $PREFIX_MAPS "${args[@]}"
