#!/usr/bin/env python3
"""Writes the container image of a release as an OCI archive: an index with an image for each architecture. No container engine is needed.

usage: scripts/release/image.py FILE.tar ARCH=FOLDER...
as in: image.py image.tar amd64=target/deb/stage arm64=target/deb-arm64/stage, the folders that deb.sh has packed

What the image says of itself (user, command, labels) is read from the Dockerfile. Below the binary are files of Debian packages that are
installed here, compared with the checksums of their packages: libraries that the binary needs, authorities, time zones.
"""

import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import time
from pathlib import Path

UID = 65532
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"


def fail(problem):
    sys.exit(f"image.py: {problem}")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        fail(f"run {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Layer:
    """The files of a layer. Times, owners, order and compression are given, so that the same files give the same bytes."""

    def __init__(self, epoch):
        self.epoch = epoch
        self.entries = {}

    def add(self, path, content=None, mode=0o644, link=None, owner=0):
        path = path.strip("/")
        # tar needs no folders, but those that it does not have would get the modes of whoever unpacks.
        for parent in list(Path(path).parents)[-2::-1]:
            self.entries.setdefault(str(parent), (None, 0o755, None, 0))
        self.entries[path] = (content, mode, link, owner)

    def folder(self, path, mode, owner=0):
        self.add(path, None, mode, None, owner)

    def pack(self):
        """The layer, packed, and the sum of what is packed."""
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for path, (content, mode, link, owner) in sorted(self.entries.items()):
                entry = tarfile.TarInfo(path)
                entry.mtime, entry.mode, entry.uid, entry.gid = self.epoch, mode, owner, owner
                if link is not None:
                    entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, link, 0o777
                elif content is None:
                    entry.type = tarfile.DIRTYPE
                else:
                    entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content or b""))
        packed = subprocess.run(["gzip", "-9n"], input=plain.getvalue(), capture_output=True, check=True).stdout
        return packed, digest(plain.getvalue())


class Packages:
    """The installed Debian packages of an architecture, and which of them the image has files of."""

    def __init__(self, arch):
        self.arch = arch
        self.used = {}

    def missing(self, what, package):
        native = run("dpkg", "--print-architecture").strip() == self.arch
        other = "" if native else f"dpkg --add-architecture {self.arch}, apt update, "
        fail(f"find {what} for {self.arch}: {other}apt install {package}")

    def package(self, name):
        """The checksums of a package's files by path."""
        if name not in self.used:
            if subprocess.run(["dpkg-query", "--status", name], capture_output=True, check=False).returncode:
                self.missing(f"the package {name}", name)
            listed = run("dpkg-query", "--control-show", name, "md5sums").splitlines()
            sums = {"/" + line[34:]: line[:32] for line in listed}
            for line in run("dpkg-query", "--show", "--showformat=${Conffiles}", name).splitlines():
                if line.strip():
                    path, value = line.split()[:2]
                    sums[path] = value
            self.used[name] = sums
        return self.used[name]

    def read(self, name, path):
        content = Path(path).read_bytes()
        wanted = self.package(name).get(path)
        if hashlib.md5(content).hexdigest() != wanted:
            fail(f"take {path} of the package {name}: it was changed on this machine; apt install --reinstall {name}")
        return content

    def library(self, name):
        """The path, content and package of a library, as `ldd` would find it."""
        for folder in (f"/lib/{TRIPLETS[self.arch]}", f"/usr/lib/{TRIPLETS[self.arch]}"):
            found = subprocess.run(["dpkg-query", "--search", f"{folder}/{name}"], capture_output=True, text=True, check=False)
            if not found.returncode:
                path = f"{folder}/{name}"
                return path, self.read(found.stdout.split(": ")[0], path)
        package = "libgcc-s1" if name.startswith("libgcc_s") else "libc6"
        return self.missing(name, f"{package}:{self.arch}")


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def needed(binary):
    """The libraries that a program or a library is linked with, and the loader of a program."""
    said = run("readelf", "--wide", "--dynamic", "--program-headers", binary)
    loader = re.search(r"Requesting program interpreter: (\S+)\]", said)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", said), loader and loader[1]


def base(epoch, arch, binary):
    """The layer below the binary: as distroless/static-debian12, and the libraries."""
    layer, packages = Layer(epoch), Packages(arch)
    wanted, loader = needed(binary)
    if loader is None:
        fail(f"read {binary}: it is linked statically, and needs no base")
    while wanted:
        path, content = packages.library(wanted.pop())
        if path.strip("/") not in layer.entries:
            layer.add(path, content)
            wanted += needed(path)[0]
    loaded, _ = packages.library(Path(loader).name)
    layer.add(loaded, layer.entries[loaded.strip("/")][0], 0o755)
    layer.add(loader, link=os.path.relpath(loaded, Path(loader).parent))

    # Not the machine's own file, which may trust more than Debian does.
    certificates = sorted(path for path in packages.package("ca-certificates") if path.startswith("/usr/share/ca-certificates/mozilla/"))
    layer.add(AUTHORITIES, b"".join(packages.read("ca-certificates", path) for path in certificates))
    zones = "/usr/share/zoneinfo/"
    for path in run("dpkg-query", "--listfiles", "tzdata").splitlines():
        # The two folders have every zone again: without leap seconds, as the zones themselves, and with them.
        if not path.startswith(zones) or path.startswith((f"{zones}posix/", f"{zones}right/")):
            continue
        if Path(path).is_symlink():
            layer.add(path, link=os.readlink(path))
        elif not Path(path).is_dir():
            layer.add(path, packages.read("tzdata", path))
    layer.add("/usr/lib/os-release", packages.read("base-files", "/usr/lib/os-release"))
    layer.add("/etc/os-release", link="../usr/lib/os-release")
    layer.add("/etc/debian_version", packages.read("base-files", "/etc/debian_version"))
    layer.add("/etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
    layer.add("/etc/passwd", f"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{UID}:{UID}:nonroot:/home/nonroot:/sbin/nologin\n".encode())
    layer.add("/etc/group", f"root:x:0:\nnonroot:x:{UID}:\n".encode())
    layer.folder("/home/nonroot", 0o700, UID)
    layer.folder("/tmp", 0o1777)
    layer.folder("/etc/delaybridge", 0o755)
    for name in sorted(packages.used):
        plain = name.split(":")[0]
        # Where scanners look for versions.
        layer.add(f"/var/lib/dpkg/status.d/{plain}", run("dpkg-query", "--status", name).encode())
        copyright = f"/usr/share/doc/{plain}/copyright"
        layer.add(copyright, Path(copyright).read_bytes())
    return layer


def settings(dockerfile):
    """The instructions of the last stage by name."""
    stage = dockerfile.read_text().rpartition("\nFROM ")[2]
    stage = re.sub(r"^#.*\n", "", stage, flags=re.MULTILINE).replace("\\\n", " ")
    found = {}
    for line in stage.splitlines()[1:]:
        name, _, value = line.strip().partition(" ")
        found.setdefault(name, []).append(value.strip())
    return found


def pairs(values):
    return dict(word.split("=", 1) for value in values for word in shlex.split(value))


class Archive:
    """The blobs of an OCI layout."""

    def __init__(self):
        self.files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}

    def blob(self, content, kind, **more):
        if not isinstance(content, bytes):
            content = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        self.files["blobs/sha256/" + digest(content)[7:]] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest(content), "size": len(content), **more}

    def write(self, file, epoch):
        with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as tar:
            for path, content in sorted(self.files.items()):
                entry = tarfile.TarInfo(path)
                entry.size, entry.mtime, entry.mode = len(content), epoch, 0o644
                tar.addfile(entry, io.BytesIO(content))


def main():
    if len(sys.argv) < 3 or any("=" not in word for word in sys.argv[2:]):
        sys.exit(__doc__)
    file, folders = sys.argv[1], dict(word.split("=", 1) for word in sys.argv[2:])
    root = Path(__file__).resolve().parents[2]
    # As scripts/release/common.sh.
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or run("git", "-C", str(root), "log", "-1", "--format=%ct"))
    revision = run("git", "-C", str(root), "rev-parse", "HEAD").strip()
    said = settings(root / "Dockerfile")
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
    labels = {name: value.replace("${REVISION}", revision) for name, value in pairs(said["LABEL"]).items()}
    archive, images = Archive(), []
    for arch, folder in sorted(folders.items()):
        if arch not in TRIPLETS:
            fail(f"make an image for {arch}: {' and '.join(TRIPLETS)} are known")
        binary = Path(folder, "delaybridge")
        program = Layer(epoch)
        program.add("/usr/local/bin/delaybridge", binary.read_bytes(), 0o755)
        for notice in (root / "LICENSE", Path(folder, "THIRD-PARTY-LICENCES.txt")):
            program.add(f"/usr/share/doc/delaybridge/{notice.name}", notice.read_bytes())
        layers, sums = [], []
        for layer in (base(epoch, arch, binary), program):
            packed, plain = layer.pack()
            layers.append(archive.blob(packed, "layer.v1.tar+gzip"))
            sums.append(plain)
        config = archive.blob(
            {
                "architecture": arch,
                "os": "linux",
                "created": created,
                "config": {
                    "User": said["USER"][0],
                    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
                    + [f"{name}={value}" for name, value in pairs(said["ENV"]).items()],
                    "Entrypoint": json.loads(said["ENTRYPOINT"][0]),
                    "Cmd": json.loads(said["CMD"][0]),
                    "ExposedPorts": {f"{port}/tcp": {} for port in said["EXPOSE"]},
                    "Labels": labels,
                    "WorkingDir": "/",
                },
                "rootfs": {"type": "layers", "diff_ids": sums},
                "history": [
                    {"created": created, "created_by": "scripts/release/image.py", "comment": what}
                    for what in ("files of Debian packages", "delaybridge")
                ],
            },
            "config.v1+json",
        )
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": layers}
        platform = {"architecture": arch, "os": "linux"}
        images.append(archive.blob({**manifest, "annotations": labels}, "manifest.v1+json", platform=platform))
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": images, "annotations": labels}
    name = f"{labels['org.opencontainers.image.title']}:{labels['org.opencontainers.image.version']}"
    named = archive.blob(index, "index.v1+json", annotations={"org.opencontainers.image.ref.name": name})
    archive.files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [named]}).encode()
    archive.write(file, epoch)
    print(f"{named['digest']}  {file}")


main()
