#!/usr/bin/env bash
# Gathers a release in dist/: archive, packages for Debian and Fedora, bills of materials, provenance, checksums. The same commit gives the same files.
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

name=delaybridge-$version-$arch-linux
folder=target/dist/$name
rm -rf "$folder"
mkdir -p "$folder"
cp -r "$binary" README.md CHANGELOG.md LICENSE config.example.yaml docs deploy/systemd "$folder/"
# The package has generated these from the binary already.
cp -r target/deb/stage/{man,completions,THIRD-PARTY-LICENCES.txt} "$folder/"
# Order, owners and times are given, and gzip's own time left out: the archive depends on the commit alone.
tar -C target/dist --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
  -c "$name" | gzip -9n >"dist/$name.tar.gz"

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
