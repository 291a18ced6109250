#!/usr/bin/env bash
# Gathers a release in dist/: archives, packages for Debian and Fedora, the container image, the chart, bills of materials, provenance,
# checksums. The same commit gives the same files. TARGETS="arm64 musl" adds other systems (build.sh).
. "$(dirname "$0")/common.sh"

# What is not committed would be in the binary and nowhere else.
[ -z "$(git status --porcelain)" ] || fail "make a release of what is committed: there are changes, see git status"

# The crates would be accepted: complete metadata, everything that they need is in them, and they build by themselves.
"$cargo" publish --dry-run --locked --workspace --exclude brokers --exclude delaybridge-testing

scripts/release/build.sh
rm -rf dist
mkdir dist
cp "$(scripts/release/deb.sh)" dist/
cp "$(scripts/release/rpm.sh)" dist/

# pack FOLDER NAME. Order, owners and times are given, and gzip's own time left out: an archive depends on the commit alone.
pack() {
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C "$1" -c "$2" | gzip -9n
}
# archive SYSTEM BINARY LICENCES
archive() {
  local name=delaybridge-$version-$1
  rm -rf "target/dist/$name"
  mkdir -p "target/dist/$name"
  cp -r "$2" "$2-tools" README.md CHANGELOG.md LICENSE config.example.yaml docs deploy/systemd "target/dist/$name/"
  # The package has generated these from the binary already.
  cp -r target/deb/stage/{man,completions} "target/dist/$name/"
  cp "$3" "target/dist/$name/THIRD-PARTY-LICENCES.txt"
  pack target/dist "$name" >"dist/$name.tar.gz"
}
archive "$arch-linux" "$binary" target/deb/stage/THIRD-PARTY-LICENCES.txt
images=("$arch=target/deb/stage")
for target in ${TARGETS:-}; do
  scripts/release/build.sh "$target"
  # OpenSSL is inside, and its fixes need a new release: it has to be in the notices and in the bills.
  case $target in
    arm64)
      system=arm64-linux triple=aarch64-unknown-linux-gnu
      cp "$(scripts/release/deb.sh arm64)" dist/
      cp "$(scripts/release/rpm.sh arm64)" dist/
      images+=("arm64=target/deb-arm64/stage")
      licences=target/deb-arm64/stage/THIRD-PARTY-LICENCES.txt
      ;;
    musl)
      system=amd64-linux-musl triple=x86_64-unknown-linux-musl
      licences=target/dist/licences-musl.txt
      OPENSSL_INSIDE=1 scripts/release/licences.sh >"$licences"
      printf '\n==== the C library musl\n\n' >>"$licences"
      cat /usr/share/doc/musl-dev/copyright >>"$licences"
      ;;
  esac
  archive $system target/dist/$triple/release/delaybridge "$licences"
  bill=dist/delaybridge-$version-$system
  OPENSSL_INSIDE=1 scripts/release/sbom.sh >"$bill.cdx.json"
  scripts/release/spdx.sh "$bill.cdx.json" >"$bill.spdx.json"
done
SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH scripts/release/image.py "dist/delaybridge-$version-image.tar" "${images[@]}" >/dev/null
# What `helm package` writes, which cannot be told the time.
pack deploy/helm delaybridge >"dist/delaybridge-chart-$version.tgz"

scripts/release/sbom.sh >"dist/delaybridge-$version.cdx.json"
scripts/release/spdx.sh "dist/delaybridge-$version.cdx.json" >"dist/delaybridge-$version.spdx.json"
# What these files were built of; the checksums are over it too, and the signature over the checksums.
scripts/release/provenance.sh dist >target/provenance.json
mv target/provenance.json "dist/delaybridge-$version.intoto.json"
(cd dist && sha256sum -- * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
cat dist/SHA256SUMS

# Enough for a trial; a distributed package needs an address that works.
[[ $maintainer != *.invalid* ]] ||
  echo "release: the package's Maintainer is a placeholder: set it in deploy/debian/control before you hand this out" >&2
