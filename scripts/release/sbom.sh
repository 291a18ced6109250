#!/usr/bin/env bash
# Prints the bill of materials in CycloneDX 1.5: every crate in the binary, with its licence, checksum and what needs it.
#
# Everything that it says is in Cargo.lock and in `cargo metadata`; a tool for it would bring 150 crates of its own.
# The C libraries inside are named by the crates that carry them: rdkafka-sys 4.10.0+2.12.1 holds librdkafka 2.12.1.
. "$(dirname "$0")/common.sh"

# name, version, checksum: the three lines that Cargo.lock has for each crate of a registry.
checksums() {
  awk -F'"' '/^name = /{n=$2} /^version = /{v=$2} /^checksum = /{print n, v, $2}' Cargo.lock
}

"$cargo" metadata --locked --format-version 1 ${OPENSSL_INSIDE:+--features vendored-openssl} |
  jq --sort-keys --rawfile crates <(crates) --rawfile sums <(checksums) \
    --arg version "$version" --arg time "$(date --utc --date="@$SOURCE_DATE_EPOCH" +%FT%TZ)" '
    def lines($text): $text | split("\n")[] | select(. != "");
    def purl: "pkg:cargo/\(.name)@\(.version)";
    ([lines($crates) | {(.): true}] | add) as $inside
    | ([lines($sums) | split(" ") | {"\(.[0]) \(.[1])": .[2]}] | add) as $sums
    | [.packages[] | select($inside["\(.name) \(.version)"])] as $packages
    | ([$packages[] | {(.id): purl}] | add) as $purls
    | def component: {
          type: "library", "bom-ref": purl, name, version, purl: purl, description,
          licenses: [{ expression: (.license // "" | gsub("/"; " OR ")) }],
          externalReferences: [{ type: "vcs", url: (.repository // empty) }],
          hashes: [{ alg: "SHA-256", content: ($sums["\(.name) \(.version)"] // empty) }]
        } | with_entries(select(.value != null and .value != []));
    {
      bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
      metadata: {
        timestamp: $time,
        component: ($packages[] | select(.name == "delaybridge") | component + { type: "application", version: $version })
      },
      components: [$packages[] | select(.name != "delaybridge") | component],
      dependencies: [
        .resolve.nodes[] | select($purls[.id])
        | { ref: $purls[.id], dependsOn: ([.deps[] | select(any(.dep_kinds[]; .kind == null)) | $purls[.pkg] // empty] | unique) }
      ]
    }'
