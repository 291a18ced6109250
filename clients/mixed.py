#!/usr/bin/env python3
"""All producers on one queue at once, with Redisson's transfer task and two daemons, and a judge of what arrives.

Starts a Redis, two daemons that deliver into a stream of it, and the adapters of the producers. Each offers, and cancels one of
ten. With --kill, a daemon or a producer is killed (SIGKILL) every one to four seconds, and started again; a producer then repeats
its last offers with the same ids.

Every element must arrive that was not cancelled, none that was, none before its due time, and a second copy with an attempt
above 1. The exit code is 1 if that is not so.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import redis

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: Redisson itself, of the last version that writes the layout. It brings the transfer task.
REDISSON = {"current": "3.52.0", "old": "3.16.8"}
#: Offers of a producer that are repeated when it comes back.
REPEATED = 20
QUEUE = "mixed"
CONFIG = """
http: {{ listen: "127.0.0.1:0" }}
redis: {{ url: "redis://127.0.0.1:{port}" }}
sinks: {{ out: {{ redis: {{ stream: arrived, timeout: 3s }} }} }}
queues:
  mixed:
    source: {{ redisson: {{ name: mixed }} }}
    lease: 5s
    to: [{{ sink: out }}]
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Offered:
    """One element, as its producer knows it."""

    def __init__(self, value):
        self.value = value
        #: The earliest time at which it can be due; None as long as no offer was answered.
        self.due = None
        self.handle = None
        self.cancelled = False
        #: Whether nobody knows that it was offered, or cancelled: it may arrive.
        self.unknown = self.doubted = False


class Dead(Exception):
    """The adapter died before it answered."""


class Producer(threading.Thread):
    """An adapter that offers at a rate."""

    def __init__(self, name, command, run, env=None):
        super().__init__(name=name)
        self.command, self.context, self.env = command, run, {**os.environ, **(env or {})}
        self.random = random.Random(f"{run.seed} {name}")
        self.offered, self.recent = [], collections.deque(maxlen=REPEATED)
        self.kills = self.repeats = self.cancels = 0
        self.problems = []
        self.process = None

    def begin(self):
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.context.log, env=self.env, cwd=ROOT
        )
        self.n = 0
        answer = self.ask(op="open", protocol=1, redis=self.context.url, queue=QUEUE, codec="string", clock="producer",
                          layout=self.context.layout, clock_offset_ms=0)
        if not answer["ok"] or answer["layout"] != self.context.layout:
            raise SystemExit(f"mixed: open {self.name}: {answer}")
        self.features = answer["features"]

    def ask(self, **command):
        self.n += 1
        try:
            self.process.stdin.write(json.dumps({"n": self.n, **command}).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = b""
        if not line:
            raise Dead
        return json.loads(line)

    def run(self):
        next_at, number = time.monotonic(), 0
        pending = []
        while time.monotonic() < self.context.ends:
            try:
                if self.process.poll() is not None:
                    raise Dead
                while pending:
                    self.repeat(pending[-1])
                    pending.pop()
                time.sleep(max(0, next_at - time.monotonic()))
                next_at += 1 / self.context.rate
                number += 1
                self.offer(number)
                if self.recent and self.random.random() < (0.1 if "ids" in self.features else 0.01):
                    self.cancel(self.random.choice(self.recent))
            except Dead:
                self.process.wait()
                self.begin()
                pending = [offer for offer in self.recent if "ids" in self.features]
                next_at = time.monotonic()

    def offer(self, number):
        one = Offered(f"{self.name}-{number}")
        self.offered.append(one)
        delay = self.random.randint(2_000, 6_000)
        one.command = {"op": "offer", "value": one.value}
        if "ids" in self.features:
            # The same due time when it is repeated.
            one.command.update(id=self.random.randbytes(8).hex(), due_ms=int(time.time() * 1000) + delay)
        else:
            one.command.update(delay_ms=delay)
        one.unknown = True
        self.recent.append(one)
        self.send(one)

    def send(self, one):
        before = int(time.time() * 1000)
        answer = self.ask(**one.command)
        if not answer["ok"]:
            self.problems.append(f"{one.value}: {answer['error']}")
            return
        one.unknown = False
        one.due = one.command.get("due_ms", before + one.command.get("delay_ms", 0))
        if one.handle not in (None, answer["offer"]):
            self.problems.append(f"{one.value}: repeated, and the handle is another one: {one.handle}, {answer['offer']}")
        one.handle = answer["offer"]

    def repeat(self, one):
        self.repeats += 1
        self.send(one)

    def cancel(self, one):
        if one.cancelled or one.unknown or one.doubted or one.due < time.time() * 1000 + 1_000:
            return
        self.cancels += 1
        one.doubted = True
        answer = self.ask(op="cancel", **({"offer": one.handle} if one.handle else {"value": one.value}))
        one.doubted = False
        one.cancelled = answer["ok"] and answer["removed"] == 1
        if not one.cancelled:
            self.problems.append(f"{one.value}: a cancel a second before it is due: {answer}")


class Daemon:
    """A daemon that is started again when it was killed."""

    def __init__(self, run, config):
        self.context, self.config, self.kills = run, config, 0
        self.begin()

    def begin(self):
        self.process = subprocess.Popen(
            [str(self.context.binary), "run", "--config", str(self.config)], stdout=self.context.log, stderr=self.context.log
        )


class Run:
    """The settings of one run."""


def kill_at_random(run, daemons, producers):
    chance = random.Random(f"{run.seed} kills")
    while time.monotonic() < run.ends - 4:
        time.sleep(chance.uniform(1, 4))
        victim = chance.choice(daemons + producers)
        victim.process.send_signal(signal.SIGKILL)
        victim.kills += 1
        if isinstance(victim, Daemon):
            victim.process.wait()
            victim.begin()


def judge(producers, arrived):
    """The lines of the report, and whether all is well."""
    known = {one.value: one for producer in producers for one in producer.offered}
    wrong = collections.Counter()
    examples = []

    def bad(what, value):
        wrong[what] += 1
        if wrong[what] <= 3:
            examples.append(f"{what}: {value}")

    copies = collections.defaultdict(list)
    for when, fields in arrived:
        value, attempt = fields[b"payload"].decode(), int(fields[b"attempt"])
        copies[value].append(attempt)
        one = known.get(value)
        if one is None:
            bad("strange", value)
        elif one.due is not None and when < one.due:
            bad("early", f"{value}, {one.due - when} ms")
    twice = 0
    for value, attempts in copies.items():
        twice += len(attempts) - 1
        if sum(attempt <= 1 for attempt in attempts) > 1:
            bad("unannounced duplicate", value)
    unknown = 0
    for value, one in known.items():
        if one.unknown or one.doubted:
            unknown += 1
        elif one.cancelled and value in copies:
            bad("arrived though it was cancelled", value)
        elif not one.cancelled and value not in copies:
            bad("lost", value)
    for producer in producers:
        for problem in producer.problems:
            bad("refused", f"{producer.name}: {problem}")
    lines = [f"{'':10}{'offers':>8}{'cancelled':>11}{'killed':>8}{'repeated':>10}{'arrived':>9}"]
    for producer in producers:
        values = {one.value for one in producer.offered}
        lines.append(
            f"{producer.name:10}{len(values):8}{sum(one.cancelled for one in producer.offered):11}{producer.kills:8}"
            f"{producer.repeats:10}{len(values & copies.keys()):9}"
        )
    lines.append(f"{len(copies)} elements arrived, {twice} second copies; {unknown} of which nobody knows whether they were offered, or cancelled")
    lines.append("lost 0, early 0, unannounced 0" if not wrong else ", ".join(f"{what} {n}" for what, n in wrong.items()))
    return lines + examples, not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--daemon", default=ROOT / "target/debug/delaybridge", type=pathlib.Path)
    parser.add_argument("--go", required=True, help="the adapter of Go, built")
    parser.add_argument("--rust", default=ROOT / "target/debug/examples/adapter", help="the adapter of Rust, built")
    parser.add_argument("--layout", choices=["current", "old"], default="current")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=200, help="offers a second of each producer")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    given = parser.parse_args()

    run = Run()
    run.layout, run.rate, run.seed, run.binary = given.layout, given.rate, given.seed, given.daemon
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mixed-"))
    port = free_port()
    run.url = f"redis://127.0.0.1:{port}"
    run.log = open(folder / "log", "ab")
    config = folder / "delaybridge.yaml"
    config.write_text(CONFIG.format(port=port))
    version = REDISSON[given.layout]
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)], stdout=run.log
    )
    java = [str(ROOT / "clients/java/adapter/run.sh"), version]
    producers = [
        Producer("redisson", [*java, "reference"], run),
        Producer("java", [*java, "redisson"], run),
        Producer("go", [given.go], run),
        Producer("python", [sys.executable, "clients/python/adapter.py"], run),
        Producer("node", ["node", "clients/node/adapter.mjs"], run),
        Producer("rust", [str(given.rust)], run, {"LAYOUT": given.layout}),
    ]
    daemons = []
    try:
        client = redis.Redis(port=port, retry_on_timeout=True)
        while server.poll() is None:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.05)
        daemons += [Daemon(run, config), Daemon(run, config)]
        for producer in producers:
            producer.begin()
        run.ends = time.monotonic() + given.seconds
        for producer in producers:
            producer.start()
        if given.kill:
            kill_at_random(run, daemons, producers)
        for producer in producers:
            producer.join()
        # What is offered is due within six seconds; what a killed daemon held, after its lease.
        before = None
        while True:
            time.sleep(6)
            now = client.xlen("arrived")
            scheduled = client.zcard("redisson_delay_queue_timeout:{mixed}") + client.llen("mixed")
            held = client.zcard("delaybridge:retry:{mixed}") + client.zcard("delaybridge:leases:{mixed}")
            if now == before and scheduled + held == 0:
                break
            before = now
        arrived = [(int(id.partition(b"-")[0]), fields) for id, fields in client.xrange("arrived")]
        dead = client.xlen("delaybridge:dead:{mixed}")
        lines, well = judge(producers, arrived)
        how = "killed at random" if given.kill else "nothing killed"
        print(f"layout {given.layout}, Redisson {version}, {given.seconds:.0f} s, {given.rate:.0f}/s each, {how}, seed {given.seed}")
        print("\n".join(lines))
        print(f"daemons killed {sum(daemon.kills for daemon in daemons)}, dead letters {dead}")
        if dead or not well:
            print(f"mixed: see {folder}")
            sys.exit(1)
        shutil.rmtree(folder)
    finally:
        for process in [daemon.process for daemon in daemons] + [producer.process for producer in producers] + [server]:
            if process is not None:
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
