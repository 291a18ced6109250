#!/usr/bin/env bash
# Installs, runs, upgrades, removes and purges the package in a fresh Debian 12 under target/deb-test, and looks at what
# each of them leaves. The service runs under a systemd of its own, in a container that has a loopback and nothing else.
. "$(dirname "$0")/common.sh"

[ "$(id -u)" = 0 ] || fail "make a Debian to test in: debootstrap and systemd-nspawn need root; run \`sudo env PATH=\"\$PATH\" HOME=\"\$HOME\" make deb-test\`"
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
work=$PWD/target/deb-test
root=$work/root
config=/etc/delaybridge/delaybridge.yaml
leader=
container=(systemd-nspawn --quiet --register=no --directory="$root")
# Where systemd runs the machine it gives the container a unit; elsewhere there is none.
[ -d /run/systemd/system ] || container+=(--keep-unit)

step() {
  echo "deb-test: $*"
}
inside() { # inside COMMAND...: in the Debian, under its systemd once that runs
  local enter=("${container[@]}" --pipe)
  [ -z "$leader" ] || enter=(nsenter --target "$leader" --mount --uts --ipc --net --pid --root --wd)
  "${enter[@]}" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
expect() { # expect DESCRIPTION COMMAND...
  "${@:2}" >"$work/out" 2>&1 || fail "$1: failed: $(tail -20 "$work/out")$([ -z "$leader" ] || journal | tail -30)"
}
eventually() { # eventually DESCRIPTION COMMAND...
  local end=$((SECONDS + 120))
  until "${@:2}" >"$work/out" 2>&1; do
    [ $SECONDS -lt $end ] || fail "$1: not within two minutes: $(tail -20 "$work/out")$(journal | tail -30)"
    sleep 0.2
  done
}
apt() { # apt DESCRIPTION ARGUMENT...
  # If both sides changed a file the old one stays, as an administrator would choose; there is no prompt here.
  expect "$1" inside apt-get -o Acquire::Retries=3 -o Dpkg::Options::=--force-confold --yes "${@:2}"
}
journal() {
  inside journalctl --no-pager --unit delaybridge --output cat
}
is() { # is PROPERTY VALUE: of the service
  [[ $(inside systemctl show delaybridge --property "$1" --value | tee "$work/out") == $2 ]]
}
end() {
  [ -z "$leader" ] || kill -KILL "$leader"
  [ -z "${nspawn:-}" ] || wait "$nspawn" || true
  rm -rf "$root"
}

fresh_debian() {
  if [ ! -e "$work/base.tar" ]; then
    step "fetching Debian 12 from $mirror"
    rm -rf "$root"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,man-db,redis-server bookworm "$root" "$mirror" \
      >"$work/debootstrap.log" 2>&1 || fail "make a Debian to test in: $(tail -5 "$work/debootstrap.log")"
    tar -C "$root" -cf "$work/base.tar.new" .
    mv "$work/base.tar.new" "$work/base.tar"
  fi
  rm -rf "$root"
  mkdir -p "$root"
  tar -C "$root" -xf "$work/base.tar"
}

boot() {
  "${container[@]}" --boot --private-network </dev/null >"$work/boot.log" 2>&1 &
  nspawn=$!
  eventually "start systemd in the container" pgrep --parent $nspawn
  leader=$(pgrep --parent $nspawn)
  eventually "boot the container" inside systemctl is-active multi-user.target
}

# A package of before, with another example, so that an upgrade has something to decide.
mkdir -p "$work"
sed 's/^# delaybridge: an example/# delaybridge: an older example/' config.example.yaml >"$work/older.yaml"
! cmp --quiet config.example.yaml "$work/older.yaml" || fail "make an older example: its first line has changed"
older=$(VERSION="$version~older" EXAMPLE=$work/older.yaml scripts/release/deb.sh)
newer=$(scripts/release/deb.sh)
trap end EXIT
fresh_debian
mkdir "$root/packages"
cp "$older" "$newer" "$root/packages/"
older=/packages/$(basename "$older") newer=/packages/$(basename "$newer")

step "installation of $version~older"
apt "read the package lists" update
apt "install, with what it depends on" install "$older"
expect "run the binary with the libraries of its dependencies" inside delaybridge --version
expect "check the example that was installed" inside delaybridge check
expect "find the user of the service" inside getent passwd delaybridge
[ ! -e "$root/etc/systemd/system/multi-user.target.wants/delaybridge.service" ] ||
  fail "install: the service was enabled with the example configuration"
[ "$(stat -c '%a %U' "$root/etc/delaybridge/credentials")" = "700 root" ] || fail "install: credentials are readable by all users"

step "upgrade to $version: an unedited example is replaced"
apt "upgrade" install "$newer"
expect "find the new example" cmp config.example.yaml "$root$config"
apt "go back" install --allow-downgrades "$older"

step "the service, its password a credential"
cat >"$root$config" <<'TEXT'
redis: { url: "redis://127.0.0.1:6379/0", password_file: "${CREDENTIALS_DIRECTORY}/redis" }
sinks: { journal: { stdout: } }
queues: { tried: { source: { redisson: { name: tried } }, codec: string, to: [{ sink: journal }] } }
TEXT
cp "$root$config" "$work/mine.yaml"
(umask 077 && echo geheim >"$root/etc/delaybridge/credentials/redis")
echo requirepass geheim >>"$root/etc/redis/redis.conf"
mkdir -p "$root/etc/systemd/system/delaybridge.service.d"
cp deploy/systemd/credentials.conf "$root/etc/systemd/system/delaybridge.service.d/"
# Short, so that the test need not wait for it long.
printf '[Service]\nWatchdogSec=3s\n' >"$root/etc/systemd/system/delaybridge.service.d/watchdog.conf"
boot
expect "verify the unit as installed" inside systemd-analyze verify delaybridge.service
[ ! -s "$work/out" ] || fail "verify the unit as installed: $(cat "$work/out")"
expect "start, which waits for READY" inside systemctl start delaybridge
eventually "show no problems" is StatusText '*no problems*'
expect "offer an element" inside env CREDENTIALS_DIRECTORY=/etc/delaybridge/credentials \
  delaybridge offer tried --delay 0s --payload 'through the sandbox'
delivered() { journal | grep 'through the sandbox'; }
eventually "deliver it into the journal" delivered
# Denied by the sandbox would be a line of the kernel or a warning of the daemon.
! journal | grep -E ' (WARN|ERROR) ' || fail "run in the sandbox: the daemon complains, see above"

step "the watchdog kills and restarts a daemon that hangs"
expect "stop its process" inside sh -c 'kill -STOP "$(systemctl show delaybridge --property MainPID --value)"'
eventually "restart it" is NRestarts 1
eventually "be ready again" is ActiveState active

step "a wrong configuration is left failed"
echo 'quues: {}' >>"$root$config"
! inside systemctl restart delaybridge 2>"$work/out" || fail "start with a wrong configuration: it went well"
expect "end with 2 and stay down" is "ExecMainStatus" 2
expect "be failed" is ActiveState failed
cp "$work/mine.yaml" "$root$config"
expect "start again" inside systemctl start delaybridge

step "upgrade of a running service to $version: an edited configuration stays"
before=$(inside systemctl show delaybridge --property MainPID --value)
expect "upgrade" inside dpkg --force-confold --install "$newer"
expect "keep the edited configuration" cmp "$work/mine.yaml" "$root$config"
expect "lay the new example beside it" cmp config.example.yaml "$root$config.dpkg-dist"
expect "run on" is ActiveState active
! is MainPID "$before" || fail "upgrade: the old binary still runs"
! inside systemctl is-enabled delaybridge >"$work/out" || fail "upgrade: it enabled the service"

step "removal: it stops, and the configuration stays"
apt "remove" remove delaybridge
expect "stop in order" is ActiveState inactive
[ ! -e "$root/usr/bin/delaybridge" ] || fail "remove: the binary is still there"
expect "keep the configuration of a removed package" cmp "$work/mine.yaml" "$root$config"

step "purge: nothing stays but what the administrator made, and the user"
apt "purge" purge delaybridge
left=$(find "$root" -xdev \( -path "$root/packages" -o -path "$root/proc" -o -path "$root/var/log" -o -path "$root/var/cache" \) -prune -o \
  -name '*delaybridge*' -print | sed "s|^$root||")
expected='/etc/delaybridge
/etc/systemd/system/delaybridge.service.d'
[ "$(sort <<<"$left")" = "$expected" ] || fail "purge: left behind: $left"
[ "$(find "$root/etc/delaybridge" -type f)" = "$root/etc/delaybridge/credentials/redis" ] ||
  fail "purge: left behind: $(find "$root/etc/delaybridge")"

step "well: $(basename "$newer") installs, runs, upgrades, keeps what was edited, and goes"
