#!/usr/bin/env bash
# Prints what the files in a folder were built of, and how: an in-toto statement with SLSA provenance (v1). It is worth what the
# signature over it is worth. Without times, so that the same commit gives the same statement: provenance.sh FOLDER.
#
# BUILDER names the machine; the default is a person's.
. "$(dirname "$0")/common.sh"

repository=https://github.com/delaybridge/delaybridge
folder=${1:?a folder of files}
# Names and sums, before the files that are made of them.
(cd "$folder" && sha256sum -- *) |
  jq --raw-input --null-input --sort-keys --arg repository $repository --arg version "$version" --arg arch "$arch" \
    --arg command "make release${TARGETS:+ TARGETS=\"$TARGETS\"}" \
    --arg commit "$(git rev-parse HEAD)" --arg lock "$(sha256sum Cargo.lock | cut -d ' ' -f 1)" \
    --arg builder "${BUILDER:-$repository/blob/main/CONTRIBUTING.md#releases}" \
    --arg rustc "$(rustc --version)" --arg cc "$(cc --version | head -1)" --arg debian "$(. /etc/os-release && echo "$PRETTY_NAME")" '
    {
      _type: "https://in-toto.io/Statement/v1",
      subject: [inputs | { digest: { sha256: .[:64] }, name: .[66:] }],
      predicateType: "https://slsa.dev/provenance/v1",
      predicate: {
        buildDefinition: {
          buildType: ($repository + "/blob/main/CONTRIBUTING.md#releases"),
          externalParameters: { command: $command, ref: ("refs/tags/v" + $version), repository: $repository },
          internalParameters: { architecture: $arch, cc: $cc, rustc: $rustc, system: $debian },
          resolvedDependencies: [
            { uri: ("git+" + $repository), digest: { gitCommit: $commit } },
            { name: "Cargo.lock", digest: { sha256: $lock } }
          ]
        },
        runDetails: { builder: { id: $builder } }
      }
    }'
