#!/usr/bin/env bash
# Prints the licences of everything in the binary: the notice that they require for its distribution.
#
# The texts come from the sources that were compiled, the C libraries' included; each is printed once, under the names of
# all crates that have it word for word.
. "$(dirname "$0")/common.sh"

list=$("$cargo" metadata --locked --format-version 1 ${OPENSSL_INSIDE:+--features vendored-openssl} | jq --raw-output --rawfile crates <(crates) '
  ([$crates | split("\n")[] | select(. != "") | {(.): true}] | add) as $inside
  | .packages[] | select($inside["\(.name) \(.version)"] and .source != null)
  | [ "\(.name) \(.version)", .license // "an unknown licence", (.manifest_path | rtrimstr("/Cargo.toml")) ] | @tsv')
[ -n "$list" ] || fail "collect licences: cargo named no crate"

declare -A crate_in=() names=() file=()
# What a crate without a text of its own says about itself.
declare -A words=()
while IFS=$'\t' read -r name licence folder; do
  crate_in[$folder]=$name
  words[$name]=$licence
done <<<"$list"

while read -r sum path; do
  folder=${path%/*}
  until [ -n "${crate_in[$folder]:-}" ]; do folder=${folder%/*}; done
  name=${crate_in[$folder]}
  unset "words[$name]"
  case ", ${names[$sum]:-}, " in
  *", $name, "*) ;;
  *) names[$sum]+="${names[$sum]:+, }$name" ;;
  esac
  file[$sum]=$path
done < <(find "${!crate_in[@]}" -maxdepth 3 -type f \
  \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'copyright*' \) \
  -not -name '*.rs' -not -name '*.py' -exec sha256sum {} + | LC_ALL=C sort -k 2)

printf 'delaybridge %s holds code of %s crates and of the C libraries that they bring.\n' "$version" "${#crate_in[@]}"
for sum in "${!names[@]}"; do printf '%s\t%s\n' "${names[$sum]}" "$sum"; done | LC_ALL=C sort |
  while IFS=$'\t' read -r name sum; do
    printf '\n==== %s\n\n' "$name"
    cat "${file[$sum]}"
  done
printf '\n==== published without a text of their own\n\n'
for name in "${!words[@]}"; do printf '%s: %s\n' "$name" "${words[$name]}"; done | LC_ALL=C sort
