#!/usr/bin/env bash
# Packs the same files as the Debian package as target/rpm/delaybridge-VERSION-1.ARCH.rpm and prints where it is. deb.sh has to run
# before: what is generated from the binary is taken from its folder. `rpm.sh arm64` packs what `deb.sh arm64` has staged, in
# target/rpm-arm64.
#
# By rpmbuild, as deb.sh by debhelper: the libraries that it requires are read from the binary.
. "$(dirname "$0")/common.sh"

stage=$PWD/target/deb${1:+-$1}/stage
[ -x "$stage/delaybridge" ] || fail "find $stage/delaybridge: run scripts/release/deb.sh${1:+ $1} before"
command -v rpmbuild >/dev/null || fail "find rpmbuild: run scripts/setup.sh release"
cp LICENSE "$stage/"
top=$PWD/target/rpm${1:+-$1}
options=()
[ "${1:-}" != arm64 ] || options=(--target aarch64-linux)
rm -rf "$top"
mkdir -p "$top"
log=$top/build.log
# The times of the package and of its files are the commit's, and no name of a machine is in it.
# A version with `-` (0.2.0-rc.1) is written with `~`: it sorts before 0.2.0.
SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH rpmbuild -bb "${options[@]}" \
  --define "release_version ${version//-/\~}" --define "stage $stage" --define "_topdir $top" --define "_rpmdir $top" \
  --define "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm" --define "_buildhost delaybridge" \
  --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
  --define "_binary_payload w15.zstdio" \
  deploy/rpm/delaybridge.spec >"$log" 2>&1 || fail "build the package: $(tail -20 "$log")"
rm -rf "$top"/{BUILD,BUILDROOT,RPMS,SOURCES,SPECS,SRPMS}
package=$(echo "$top"/*.rpm)
echo "${package#"$PWD"/}"
