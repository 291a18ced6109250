#!/usr/bin/env bash
# Builds the image with the Dockerfile and runs it as a cluster would: no privileges, read-only root, SIGTERM at the end.
# Asks no container registry: both base images are made here, of Debian 12's packages and this machine's Rust. What
# that does not test is in docs/container.md. `image-test.sh FILE.tar` runs the image of a release (scripts/release/image.py) instead, and
# builds nothing.
#
# Needs root, as mounting file systems does, and some gigabytes in the cache, in the folder `image`: the second run finds
# the dependencies built there. Delete the folder to begin with the packages of today.
set -euo pipefail

cd "$(dirname "$0")/.."
cache=${DELAYBRIDGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/delaybridge}/image
bases=localhost/delaybridge-bases
image=localhost/delaybridge:test
most=43200000 # bytes, unpacked
uid=65532

fail() {
  echo "image-test: $*" >&2
  exit 1
}
step() { printf 'image-test: %-28s' "$1"; }
ok() { echo "$*"; }

[ "$(id -u)" = 0 ] || fail "build an image: this needs root, to mount file systems; run \`sudo env PATH=\"\$PATH\" HOME=\"\$HOME\" make image-test\`"
[ $# -gt 0 ] || command -v rustc >/dev/null || fail "find rustc: not in the PATH of root; run \`sudo env PATH=\"\$PATH\" HOME=\"\$HOME\" make image-test\`"
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # one at a time: they share the storage

# vfs and cgroupfs: slow and plain, but they work inside of a container too, where CI mostly is.
storage=(--root "$cache/storage" --runroot "$cache/run" --storage-driver vfs)
buildah() { command buildah "${storage[@]}" "$@"; }
podman() { command podman "${storage[@]}" --runtime runc --cgroup-manager cgroupfs "$@"; }
inspect() { podman image inspect --format "$1" "$image"; }

work=$(mktemp -d)
redis='' container=''
finish() {
  [ -z "$container" ] || podman rm --force --time 0 "$container" >/dev/null || true
  [ -z "$redis" ] || { kill "$redis" && wait "$redis"; } || true
  buildah rm --all >/dev/null || true
  rm -rf "$work"
}
trap finish EXIT

exists() { buildah inspect --type image "$1" >/dev/null 2>&1; }

# Debian with the packages of rust:bookworm. The toolchain is mounted, which saves a copy of 1 GB.
make_rust_base() {
  local from root
  from=$(buildah from scratch)
  root=$(buildah mount "$from")
  debootstrap --variant=minbase --include=ca-certificates,g++,gcc,libc6-dev,libssl-dev,make,netbase,pkg-config \
    bookworm "$root" >"$cache/debootstrap.log" || fail "make a base image: debootstrap failed, see $cache/debootstrap.log"
  buildah config --env PATH=/opt/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin --env CARGO_HOME=/opt/cargo "$from"
  buildah commit --quiet "$from" "$bases:rust" >/dev/null
}

# The packages of distroless/static-debian12, unpacked and not installed, as there: no shell ever gets in.
make_runtime_base() {
  local from root debian package
  debian=$(buildah mount "$(buildah from "$bases:rust")")
  from=$(buildah from scratch)
  root=$(buildah mount "$from")
  for package in base-files netbase tzdata; do
    dpkg-deb --extract "$debian/var/cache/apt/archives/${package}"_*.deb "$root"
  done
  install -D -m 644 "$debian/etc/ssl/certs/ca-certificates.crt" "$root/etc/ssl/certs/ca-certificates.crt"
  echo "root:x:0:0:root:/root:/sbin/nologin" >"$root/etc/passwd"
  echo "nonroot:x:$uid:$uid:nonroot:/home/nonroot:/sbin/nologin" >>"$root/etc/passwd"
  printf 'root:x:0:\nnonroot:x:%s:\n' $uid >"$root/etc/group"
  buildah commit --quiet "$from" "$bases:runtime" >/dev/null
}

# While it is built, it trusts whom this machine trusts: a proxy on the way to the crates may have a CA of its own.
build() { # build OPTION...
  buildah build --isolation chroot --layers \
    --build-arg RUST_IMAGE="$bases:rust" --build-arg BASE_IMAGE="$bases:runtime" --build-arg REVISION=image-test \
    --volume "$(rustc --print sysroot):/opt/rust:ro" \
    --volume /etc/ssl/certs/ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt:ro "$@" . >>"$cache/build.log" 2>&1 ||
    fail "build the image: see $cache/build.log"
}
build_image() {
  step "base images"
  exists "$bases:rust" || make_rust_base
  exists "$bases:runtime" || make_runtime_base
  ok "Debian 12, $(rustc --version)"

  step "build"
  local began=$SECONDS
  : >"$cache/build.log"
  # By a name of its own the first stage is kept, and the layers of earlier sources, of a gigabyte each, can go.
  build --target build --tag "$image-build"
  build --tag "$image"
  buildah rmi --prune >/dev/null
  ok "$((SECONDS - began)) s"
}

if [ $# -gt 0 ]; then
  step "load"
  name=$(podman load --quiet --input "$1" | sed 's/^Loaded image: //')
  podman tag "$name" "$image"
  ok "$name"
else
  build_image
fi

root=$(buildah mount "$(buildah from "$image")")
step "size"
size=$(du --summarize --bytes "$root" | cut -f1)
[ "$size" -le $most ] || fail "$size bytes, more than $most"
buildah push --quiet "$image" "oci-archive:$work/image.tar" >/dev/null
ok "$((size / 1000)) kB unpacked, $(($(stat --format %s "$work/image.tar") / 1000)) kB packed"

step "what is inside"
setuid=$(find "$root" -xdev -type f -perm /6000)
[ -z "$setuid" ] || fail "programs that change the user: $setuid"
shells=$(find "$root" -xdev \( -name '*sh' -o -name 'busybox*' \) -path '*bin/*')
[ -z "$shells" ] || fail "a shell: $shells"
authorities=$(grep -c 'BEGIN CERTIFICATE' "$root$(inspect '{{range .Config.Env}}{{println .}}{{end}}' |
  sed -n 's/^SSL_CERT_FILE=//p')")
libraries=$(find "$root" -xdev -name '*.so*' -type f | wc -l)
packages=$(cd "$root/var/lib/dpkg/status.d" && echo *)
ok "no shell, nothing setuid, $authorities CAs, $libraries libraries of $packages"

# As deploy/kubernetes has it. The ulimits are podman's own wish, which not every machine may grant.
confined=(--read-only --read-only-tmpfs=false --cap-drop all --security-opt no-new-privileges
  --ulimit nofile=1024:1024 --ulimit nproc=1024:1024)

step "what it says of itself"
[ "$(inspect '{{.User}}')" = "$uid:$uid" ] || fail "user is $(inspect '{{.User}}')"
[[ "$(inspect '{{.HealthCheck}}')" =~ ^(<nil>)?$ ]] || fail "there is a HEALTHCHECK"
label() {
  local value
  value=$(inspect "{{index .Labels \"org.opencontainers.image.$1\"}}")
  [ -n "$value" ] || fail "the label $1 is missing"
  echo "$value"
}
said=$(podman run --rm --network none "${confined[@]}" "$image" --version)
[ "$said" = "$(label title) $(label version)" ] || fail "it is labelled version $(label version) and says $said"
ok "$said, revision $(label revision), $(label licenses), user $uid"

# A free port; another process is unlikely to take it before it is used.
free_port() {
  local port
  while port=$((20000 + RANDOM % 10000)) && (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  echo "$port"
}
until_true() { # until_true WHAT COMMAND...: within 30 s
  local what=$1 deadline=$((SECONDS + 30))
  shift
  until "$@" >"$work/answer" 2>&1; do
    [ $SECONDS -lt $deadline ] || fail "$what: not within 30 s; $(cat "$work/answer"); $(podman logs "$container" 2>&1 | tail -5)"
    sleep 0.1
  done
}

redis_port=$(free_port)
redis-server --port "$redis_port" --bind 127.0.0.1 --save '' --appendonly no --dir "$work" >"$work/redis.log" &
redis=$!
http_port=$(free_port)
cat >"$work/delaybridge.yaml" <<YAML
http: { listen: "127.0.0.1:$http_port" }
redis: { url: "redis://127.0.0.1:$redis_port/0" }
sinks: { screen: { stdout: {} } }
queues:
  try_it: { source: { redisson: { name: try-it } }, codec: string, to: [{ sink: screen }] }
YAML
chmod 755 "$work"
confined+=(--network host --volume "$work/delaybridge.yaml:/etc/delaybridge/delaybridge.yaml:ro")

step "starts, /livez and /readyz"
began=$(date +%s%N)
container=$(podman run --detach "${confined[@]}" "$image")
until_true "ask /livez" curl --silent --show-error --fail "http://127.0.0.1:$http_port/livez"
live=$((($(date +%s%N) - began) / 1000000))
until_true "ask /readyz" curl --silent --show-error --fail "http://127.0.0.1:$http_port/readyz"
ok "200 and 200, after $live ms"

step "one element delivered"
podman run --rm "${confined[@]}" "$image" offer try_it --delay 200ms --payload 'from the image' >/dev/null
# Not grep -q: it would end before its writer, which then counts as failed.
delivered() { podman logs "$container" 2>/dev/null | grep --fixed-strings 'from the image'; }
until_true "see the element on standard output" delivered
ok "on standard output"

step "without privileges"
pid=$(podman inspect --format '{{.State.Pid}}' "$container")
status() { awk -v key="$1:" '$1 == key { $1 = ""; print substr($0, 2) }' "/proc/$pid/status"; }
[ "$(status Uid)" = "$uid $uid $uid $uid" ] || fail "user ids $(status Uid)"
[ "$(status Gid)" = "$uid $uid $uid $uid" ] || fail "group ids $(status Gid)"
[ "$(status CapEff)" = 0000000000000000 ] || fail "capabilities $(status CapEff)"
[ "$(status NoNewPrivs)" = 1 ] || fail "new privileges are allowed"
ok "Uid $(status Uid), CapEff 0, NoNewPrivs 1, Seccomp $(status Seccomp)"

step "read-only root"
options=$(awk '$5 == "/" { print $6 }' "/proc/$pid/mountinfo")
[[ ,$options, == *,ro,* ]] || fail "/ is mounted with $options"
ok "$options"

step "SIGTERM"
began=$(date +%s%N)
podman kill --signal TERM "$container" >/dev/null
code=$(timeout 30 "$(command -v podman)" "${storage[@]}" wait "$container") || fail "it still runs after 30 s"
[ "$code" = 0 ] || fail "exit code $code; $(podman logs "$container" 2>&1 | tail -5)"
ok "exit code 0 after $((($(date +%s%N) - began) / 1000000)) ms"
