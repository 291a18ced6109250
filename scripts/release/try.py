#!/usr/bin/env python3
"""Tries a release binary, also one of another system: a thousand elements of a sorted set go to a stream in a private Redis.

usage: scripts/release/try.py [EMULATOR] BINARY, as in: try.py qemu-aarch64 target/dist/aarch64-unknown-linux-gnu/release/delaybridge
"""

import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

COUNT = 1000


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def main():
    program = sys.argv[1:]
    if not program:
        sys.exit(__doc__)
    for file in program:
        if not shutil.which(file):
            sys.exit(f"try.py: find {file}: no such program; scripts/release/build.sh builds the binaries")
    redis_port, http_port = free_port(), free_port()
    redis = subprocess.Popen(
        ["redis-server", "--bind", "127.0.0.1", "--port", str(redis_port), "--save", ""], stdout=subprocess.DEVNULL
    )
    try:
        deliver(program, redis_port, http_port)
    finally:
        redis.terminate()


def deliver(program, redis_port, http_port):
    def cli(*arguments, commands=None):
        call = ["redis-cli", "-p", str(redis_port), *arguments]
        return subprocess.run(call, input=commands, capture_output=True, text=True, check=False).stdout.strip()

    until = time.monotonic() + 30
    while cli("ping") != "PONG":
        if time.monotonic() > until:
            sys.exit("try.py: start redis-server: it does not answer")
        time.sleep(0.05)
    first = int(time.time() * 1000) + 4000
    cli(commands="".join(f"ZADD due {first + 8 * number} element-{number}\n" for number in range(COUNT)))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config, tempfile.TemporaryFile("w+") as log:
        config.write(
            f"http: {{ listen: 127.0.0.1:{http_port} }}\n"
            f"redis: {{ url: redis://127.0.0.1:{redis_port} }}\n"
            "sinks: { out: { redis: { stream: out } } }\n"
            "queues: { q: { source: { zset: { key: due, score: ms } }, to: [{ sink: out }] } }\n"
        )
        config.flush()
        daemon = subprocess.Popen([*program, "run", "--config", config.name], stdout=log, stderr=log)
        try:
            until = time.monotonic() + 60
            while int(cli("xlen", "out")) < COUNT and time.monotonic() < until and daemon.poll() is None:
                time.sleep(0.1)
            if daemon.poll() is None:
                metrics = urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics").read().decode()
                wanted = ("delaybridge_build_info{", "process_resident_memory_bytes ")
                print(*(line for line in metrics.splitlines() if line.startswith(wanted)), sep="\n")
        finally:
            daemon.send_signal(signal.SIGTERM)
            status = daemon.wait(60)
        entries = json.loads(cli("--json", "xrange", "out", "-", "+"))
        # The time of an entry is the first part of its id.
        late = sorted(int(entry[0].split("-")[0]) - int(dict(zip(entry[1][::2], entry[1][1::2]))["due_ms"]) for entry in entries)
        different = {dict(zip(entry[1][::2], entry[1][1::2]))["payload"] for entry in entries}
        left = int(cli("zcard", "due"))
        p50, p99 = (late[int(len(late) * share)] if late else None for share in (0.5, 0.99))
        print(
            f"{len(entries)} delivered, {COUNT - len(different)} missing, {len(entries) - len(different)} twice, "
            f"{left} left in Redis; earliest {late[0] if late else None} ms, p50 {p50} ms, p99 {p99} ms late; exit {status}"
        )
        if len(different) != COUNT or len(entries) != COUNT or left or status or late[0] < 0:
            log.seek(0)
            sys.exit(f"try.py: deliver {COUNT} elements with {' '.join(program)}: see above. The daemon's log:\n{log.read()[-4000:]}")


main()
