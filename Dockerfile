# The daemon alone, on a base that has no shell. From the top of the repository:
#
#   docker build --build-arg REVISION="$(git rev-parse HEAD)" --tag delaybridge:0.1.0 .
#
# docs/container.md describes the content and the tests of the image.

# Set them to mirrors, or to digests for a repeatable build. The first has Rust, and Debian 12 with its C library and OpenSSL.
# The second has CA certificates, time zones, a user that is not root, and no libraries. Both are Debian 12: in the images of
# 13 /lib is a link, which the COPY of libraries below would not follow.
ARG RUST_IMAGE=docker.io/library/rust:1.95-bookworm
ARG BASE_IMAGE=gcr.io/distroless/static-debian12:nonroot

# The manifests with empty sources: those of ours, and of the tests, which belong to the workspace but are not built here.
FROM ${RUST_IMAGE} AS manifests
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY crates crates
COPY tests tests
RUN find crates -type f ! -name Cargo.toml -delete \
 && for crate in . crates/* tests/*; do mkdir -p $crate/src && touch $crate/src/lib.rs; done \
 && echo 'fn main() {}' >src/main.rs

FROM ${RUST_IMAGE} AS build
WORKDIR /src
# As scripts/release/build.sh: the C parts parse answers of brokers.
ENV CFLAGS="-fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2" \
    CXXFLAGS="-fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"

# The dependencies have their own layer, rebuilt when a manifest changes and not with every source file: what is copied here is
# the same as long as no manifest changes.
COPY --from=manifests /src ./
RUN cargo build --release --locked --bin delaybridge

COPY crates crates
COPY src src
# The revision in delaybridge_build_info. Its place is here, because a change of it rebuilds all layers below.
ARG REVISION=unknown
# Cargo compares times: sources older than the empty ones would count as built.
RUN touch src/main.rs src/lib.rs crates/*/src/lib.rs \
 && DELAYBRIDGE_REVISION="${REVISION}" cargo build --release --locked --bin delaybridge

# The libraries that the binary is linked with, and no other files of their packages: distroless/cc-debian12, which has all
# files, would make the image half as large again. The packages are listed where scanners look for their versions.
RUN mkdir -p /runtime/var/lib/dpkg/status.d \
 && cp --dereference --parents $(ldd target/release/delaybridge | grep -o '/[^ ]*') /runtime \
 && for package in libc6 libgcc-s1 libssl3; do \
      dpkg-query --status "$package" >"/runtime/var/lib/dpkg/status.d/$package" || exit; \
    done

FROM ${BASE_IMAGE}
ARG REVISION=unknown
LABEL org.opencontainers.image.title="delaybridge" \
      org.opencontainers.image.description="Forwards due elements of Redisson delayed queues to Kafka, AMQP, Redis or webhooks, and loses none" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/delaybridge/delaybridge" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /runtime /
COPY --from=build /src/target/release/delaybridge /usr/local/bin/delaybridge
# OpenSSL, which Kafka's client uses, looks for the CAs where a package puts a link that small bases leave out.
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
# By number: Kubernetes cannot verify a name (runAsNonRoot).
USER 65532:65532
EXPOSE 9464
# The daemon writes no files. No HEALTHCHECK: the image has no shell to run it, and Kubernetes calls /livez itself.
ENTRYPOINT ["/usr/local/bin/delaybridge"]
# Reads /etc/delaybridge/delaybridge.yaml. SIGTERM stops it cleanly.
CMD ["run"]
