# The daemon alone, on a base that has no shell. From the top of the repository:
#
#   docker build --build-arg REVISION="$(git rev-parse HEAD)" --tag delaybridge:0.1.0 .
#
# docs/container.md says what is inside, how this file is tried, and what could not be tried.

# Name your own mirrors of them, or the digests where a build has to be repeatable. The first brings Rust, and Debian 12
# with its C library and OpenSSL; the second CA certificates, time zones, a user that is not root, and no libraries. Debian
# 12 for both: in the images of 13 /lib is a link, which the COPY of libraries below would not follow.
ARG RUST_IMAGE=docker.io/library/rust:1.95-bookworm
ARG BASE_IMAGE=gcr.io/distroless/static-debian12:nonroot

FROM ${RUST_IMAGE} AS build
WORKDIR /src

# The dependencies are a layer of their own, built again when a manifest changes and not with every source file. Empty
# sources stand in for ours, and for the test servers, which are never built here but belong to the workspace.
COPY Cargo.toml Cargo.lock ./
COPY crates crates
COPY tests/brokers/Cargo.toml tests/brokers/
RUN mkdir src tests/brokers/src \
 && touch src/lib.rs tests/brokers/src/lib.rs \
 && echo 'fn main() {}' >src/main.rs \
 && cargo build --release --locked --bin delaybridge

COPY src src
# What delaybridge_build_info tells; here, because a change of it builds everything below again.
ARG REVISION=unknown
# Cargo goes by times: sources older than the empty ones would count as built.
RUN touch src/lib.rs src/main.rs \
 && DELAYBRIDGE_REVISION="${REVISION}" cargo build --release --locked --bin delaybridge

# The libraries that the binary is linked with, and nothing else of their packages: distroless/cc-debian12, which has them
# whole, would make the image half as large again. The packages are named where scanners look for their versions.
RUN mkdir -p /runtime/var/lib/dpkg/status.d \
 && cp --dereference --parents $(ldd target/release/delaybridge | grep -o '/[^ ]*') /runtime \
 && for package in libc6 libgcc-s1 libssl3; do \
      dpkg-query --status "$package" >"/runtime/var/lib/dpkg/status.d/$package" || exit; \
    done

FROM ${BASE_IMAGE}
ARG REVISION=unknown
LABEL org.opencontainers.image.title="delaybridge" \
      org.opencontainers.image.description="Forwards due elements of Redisson delayed queues to Kafka, AMQP or Redis, and loses none" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/delaybridge/delaybridge" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /runtime /
COPY --from=build /src/target/release/delaybridge /usr/local/bin/delaybridge
# OpenSSL, which Kafka's client uses, looks for the CAs where a package puts a link that small bases leave out.
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
# By number: Kubernetes cannot tell from a name whether it is root (runAsNonRoot).
USER 65532:65532
EXPOSE 9464
# Nothing is written to the file system. No HEALTHCHECK: there is no shell to run it, and Kubernetes asks /livez itself.
ENTRYPOINT ["/usr/local/bin/delaybridge"]
# Reads /etc/delaybridge/delaybridge.yaml; SIGTERM ends it in order.
CMD ["run"]
