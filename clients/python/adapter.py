"""Drives the producer by lines of JSON, for the conformance kit. With --asyncio it drives the asynchronous one.

One command a line on standard input, one answer a line on standard output.
"""

import asyncio
import json
import sys
import time

import delaybridge
import redis
import redis.asyncio

FEATURES = ["batch", "cancel", "cancel_value", "reschedule", "ids", "clock_redis", "clock_offset"]


def connect(command, library, sentinels):
    if command.get("sentinel"):
        nodes = [(host, int(port)) for host, port in (node.rsplit(":", 1) for node in command["sentinel"]["nodes"])]
        return sentinels.Sentinel(nodes).master_for(command["sentinel"]["master"])
    if command.get("cluster"):
        host, port = command["cluster"][0].rsplit(":", 1)
        return library.RedisCluster(host=host, port=int(port))
    return library.Redis.from_url(command["redis"])


class Adapter:
    def __init__(self, asynchronous):
        self.asynchronous = asynchronous
        self.client = self.queue = None

    async def call(self, method, *args, **kwargs):
        result = method(*args, **kwargs)
        return await result if self.asynchronous else result

    async def close(self):
        if self.client is not None:
            await self.call(self.client.aclose if self.asynchronous else self.client.close)
        self.client = self.queue = None

    async def open(self, command):
        await self.close()
        if self.asynchronous:
            library, sentinels, queue = redis.asyncio, redis.asyncio.sentinel, delaybridge.AsyncDelayedQueue
        else:
            library, sentinels, queue = redis, redis.sentinel, delaybridge.DelayedQueue
        offset = command.get("clock_offset_ms", 0) / 1000
        layout = delaybridge.Layout(command.get("layout", "current"))
        self.client = connect(command, library, sentinels)
        self.queue = queue(
            self.client,
            command["queue"],
            codec=command["codec"],
            clock=command.get("clock", "producer"),
            layout=layout,
            now=lambda: time.time() + offset,
        )
        name = f"python {delaybridge.__version__}" + (" asyncio" if self.asynchronous else "")
        return {"name": name, "features": FEATURES, "layout": layout.value}

    @staticmethod
    def offer(one):
        delay = one["delay_ms"] / 1000 if "delay_ms" in one else None
        return delaybridge.Offer(one["value"], delay=delay, due=one.get("due_ms"), id=one.get("id"))

    async def answer(self, command):
        op, queue = command["op"], self.queue
        if op == "open":
            return await self.open(command)
        if op == "close":
            await self.close()
            return {}
        if queue is None:
            raise RuntimeError(f"{op}: no queue is open")
        if op == "offer":
            return {"offer": (await self.call(queue.offer_many, [self.offer(command)]))[0]}
        if op == "offer_batch":
            return {"offers": await self.call(queue.offer_many, [self.offer(one) for one in command["offers"]])}
        if op == "cancel" and "offer" in command:
            return {"removed": int(await self.call(queue.cancel, command["offer"]))}
        if op == "cancel":
            return {"removed": await self.call(queue.cancel_value, command["value"])}
        if op == "reschedule":
            moved = await self.call(queue.reschedule, command["offer"], command["due_ms"])
            return {"moved": moved is not None, "offer": moved or command["offer"]}
        return None


async def main():
    adapter = Adapter("--asyncio" in sys.argv[1:])
    for line in sys.stdin.buffer:
        command = json.loads(line)
        try:
            found = await adapter.answer(command)
            if found is None:
                answer = {"ok": False, "error": f"no command {command['op']}", "unsupported": True}
            else:
                answer = {"ok": True, **found}
        except Exception as e:
            answer = {"ok": False, "error": f"{type(e).__name__}: {e}"[:2000]}
        sys.stdout.write(json.dumps({"n": command.get("n"), **answer}) + "\n")
        sys.stdout.flush()
    await adapter.close()


if __name__ == "__main__":
    asyncio.run(main())
