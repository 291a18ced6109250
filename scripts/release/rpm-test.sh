#!/usr/bin/env bash
# Installs, verifies, upgrades and removes target/rpm/*.rpm below a folder, by rpm alone.
#
# No system with rpm runs here: dependencies are compared with the list below instead of installed, and the scripts, which only ask a
# running systemd, are read by `sh -n`.
. "$(dirname "$0")/common.sh"

package=$(echo target/rpm/delaybridge-*.rpm)
[ -f "$package" ] || fail "find target/rpm/delaybridge-*.rpm: run make rpm"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
rpm=(rpm --force-debian --root "$root" --nodeps --noscripts)
config=$root/etc/delaybridge/delaybridge.yaml

same() { # same WHAT EXPECTED FOUND
  [ "$2" = "$3" ] || fail "$1: expected \`$2\`, found \`$3\`"
  echo "rpm-test: $1: $3"
}

"${rpm[@]}" --install "$package"
same "files that differ from the package" "" "$("${rpm[@]}" --verify delaybridge)"
same "mode of the credentials" 700 "$(stat -c %a "$root/etc/delaybridge/credentials")"
same "the program" "delaybridge $version" "$("$root/usr/bin/delaybridge" --version | cut -d' ' -f1,2)"
"$root/usr/bin/delaybridge" check --config "$config" >/dev/null || fail "the example in /etc is refused"

# Every Fedora and RHEL 9 has these.
libraries=$(rpm --query --requires --package "$package" | sed -n 's/^\(lib[a-z_]*\.so\.[0-9]*\)().*/\1/p' |
  grep -Ev '^lib(c|m|gcc_s|ssl|crypto)\.so\.' || true)
same "libraries beside glibc and OpenSSL 3" "" "$libraries"
newest=$(rpm --query --requires --package "$package" | grep -o 'GLIBC_2[0-9.]*' | sort -V | tail -1)
same "newest of glibc's versions (RHEL 9 has 2.34)" GLIBC_2.34 "$newest"
for script in PREUN POSTUN; do
  rpm --query --queryformat "%{$script}" --package "$package" | sh -n || fail "the script $script is no shell"
done

# An upgrade keeps what the operator has written.
echo "# mine" >>"$config"
"${rpm[@]}" --upgrade --replacepkgs "$package"
same "the operator's line after an upgrade" "# mine" "$(tail -1 "$config")"
"${rpm[@]}" --erase delaybridge
same "files after the removal" "etc/delaybridge/delaybridge.yaml.rpmsave" "$(cd "$root" && find etc usr -type f | sort | tr '\n' ' ' | sed 's/ $//')"
