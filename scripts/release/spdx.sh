#!/usr/bin/env bash
# Prints the bill of materials as SPDX 2.3, made of the one in CycloneDX: spdx.sh FILE.cdx.json.
. "$(dirname "$0")/common.sh"

[ -f "${1:-}" ] || fail "find ${1:-a bill of materials}: make it with scripts/release/sbom.sh"
jq --sort-keys --arg sum "$(sha256sum "$1" | cut -d ' ' -f 1)" '
  def id: "SPDXRef-" + (.name + "-" + .version | gsub("[^A-Za-z0-9.-]"; "-"));
  def package: {
      SPDXID: id, name, versionInfo: .version, downloadLocation: (.externalReferences[0].url // "NOASSERTION"),
      filesAnalyzed: false, copyrightText: "NOASSERTION", licenseConcluded: "NOASSERTION",
      licenseDeclared: (.licenses[0].expression | if . == null or . == "" then "NOASSERTION" else . end),
      externalRefs: [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: .purl }],
      checksums: [.hashes[]? | { algorithm: "SHA256", checksumValue: .content }]
    } | if .checksums == [] then del(.checksums) else . end;
  (.metadata.component + {}) as $root
  | ([$root, .components[]] | map({ (."bom-ref"): id }) | add) as $ids
  | {
    spdxVersion: "SPDX-2.3", dataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT",
    name: "delaybridge-\($root.version)",
    documentNamespace: "https://github.com/delaybridge/delaybridge/sbom/\($root.version)/\($sum)",
    creationInfo: { created: .metadata.timestamp, creators: ["Tool: scripts/release/spdx.sh"] },
    packages: [($root, .components[]) | package],
    relationships: (
      [{ spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: ($root | id) }]
      + [.dependencies[] | $ids[.ref] as $from | .dependsOn[] | { spdxElementId: $from, relationshipType: "DEPENDS_ON", relatedSpdxElement: $ids[.] }])
  }' "$1"
