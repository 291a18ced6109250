import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after, before, beforeEach } from "node:test";

import { Redis } from "ioredis";
import { createClient } from "redis";

import { DelayedQueue } from "../lib/index.js";
import { payloadOf } from "../lib/layout.js";

const [Z, L, C] = ["_timeout", "", "_channel"].map((part) => `redisson_delay_queue${part}:{orders}`);
const clients = {};
let folder;
let port;
let redis;
let server;

// A redis-server of our own.
before(async () => {
  port = await new Promise((resolve) => {
    const free = createServer().listen(0, "127.0.0.1", () => {
      const { port } = free.address();
      free.close(() => resolve(port));
    });
  });
  folder = mkdtempSync(join(tmpdir(), "delaybridge-"));
  server = spawn("redis-server", ["--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder]);
  redis = clients.ioredis = new Redis(port);
  redis.on("error", () => {});
  await redis.ping();
  clients.redis = await createClient({ url: `redis://127.0.0.1:${port}` }).connect();
});

after(async () => {
  await clients.redis?.close();
  redis.disconnect();
  server.kill();
  rmSync(folder, { recursive: true, force: true });
});

beforeEach(() => redis.flushall());

/** What is scheduled, as payload@score; L has the same elements. */
async function scheduled() {
  const flat = await redis.zrangeBuffer(Z, 0, -1, "WITHSCORES");
  const members = flat.filter((_, i) => i % 2 === 0);
  const sorted = (elements) => elements.map((element) => element.toString("hex")).sort();
  assert.deepEqual(sorted(members), sorted(await redis.lrangeBuffer(L, 0, -1)));
  return members.map((member, i) => `${payloadOf(member)}@${flat[2 * i + 1]}`);
}

for (const library of ["ioredis", "redis"]) {
  const make = (options) => new DelayedQueue(clients[library], "orders", { codec: "string", ...options });

  test(`${library}: an offer is in both structures`, async () => {
    await make().offer("a\0b\u{1f600}", { due: 7 });
    assert.deepEqual(await scheduled(), ["a\0b\u{1f600}@7"]);
    assert.equal(await redis.dbsize(), 2);
    await redis.flushall();
    const offer = await make({ layout: "old" }).offer("x", { due: 7 });
    assert.deepEqual(await scheduled(), ["x@7"]);
    assert.equal((await redis.lindexBuffer(L, 0)).subarray(8).toString("latin1"), "\x01\0\0\0\0\0\0\0x");
    assert.equal(await make({ layout: "old" }).cancel(offer), true);
  });

  test(`${library}: delays count from the clock that was chosen`, async () => {
    const now = () => 1_000_500.7;
    await make({ now }).offer("producer", { delay: 1500 });
    const before = Date.now();
    await make({ now, clock: "redis" }).offer("redis", { delay: 60_000 });
    const [first, second] = (await scheduled()).map((entry) => Number(entry.split("@")[1]));
    assert.equal(first, 1_002_000);
    assert.ok(second >= before + 59_990 && second < before + 62_000);
  });

  test(`${library}: nothing is written if an argument is wrong`, async () => {
    for (const wrong of [{ delay: -1 }, { due: -1 }, {}, { delay: 1, due: 1 }, { delay: 1, id: "00" }]) {
      await assert.rejects(make().offerMany([{ value: "good", delay: 1 }, { value: "x", ...wrong }]));
    }
    await assert.rejects(make().offer(5, { delay: 1 }));
    assert.deepEqual(await redis.keys("*"), []);
    assert.throws(() => make({ codec: "xml" }), TypeError);
    assert.throws(() => new DelayedQueue({}, "orders"), TypeError);
  });

  test(`${library}: a key of another type is left alone`, async () => {
    await redis.set(L, "text");
    await assert.rejects(make().offer("x", { delay: 1 }), /WRONGTYPE/);
    assert.equal(await redis.exists(Z), 0);
  });

  test(`${library}: a new head is announced and nothing else`, async () => {
    const heard = [];
    const listener = redis.duplicate();
    await listener.subscribe(C);
    const ended = new Promise((resolve) => {
      listener.on("message", (_, message) => (heard.push(message) && message === "end" ? resolve() : undefined));
    });
    const queue = make();
    const first = await queue.offer("a", { due: 1000 });
    const second = await queue.offer("b", { due: 2000 });
    await queue.offerMany([900, 800, 3000].map((due) => ({ value: "c", due })));
    await queue.reschedule(second, 2500);
    await queue.reschedule(first, 700);
    await queue.cancel(await queue.offer("f", { due: 9000 }));
    await redis.publish(C, "end");
    await ended;
    listener.disconnect();
    assert.deepEqual(heard, ["1000", "800", "700", "end"]);
  });

  test(`${library}: an id is remembered under the prefix of the daemon`, async () => {
    await make({ keyPrefix: "team-a:" }).offer("x", { due: 7, id: "00112233445566ff" });
    assert.equal(await redis.get("team-a:offer:{orders}:00112233445566ff"), "7");
  });

  test(`${library}: a repeated offer is made once`, async () => {
    const id = "00112233445566ff";
    const key = `delaybridge:offer:{orders}:${id}`;
    const offer = (due) => make().offer("x", { due, id });
    for (const due of [7, 7, 9]) assert.equal(await offer(due), `${id}-7`);
    assert.deepEqual(await scheduled(), ["x@7"]);
    const left = await redis.pttl(key);
    assert.ok(left > 590_000 && left <= 600_000);
    // A consumer took it.
    await redis.del(Z, L);
    assert.equal(await make().offer("x", { due: 7, id: Buffer.from(id, "hex") }), `${id}-7`);
    assert.deepEqual(await scheduled(), []);
    // Without the key the element itself tells.
    await redis.del(key);
    await offer(7);
    await redis.del(key);
    await offer(8);
    assert.deepEqual(await scheduled(), ["x@7"]);
  });

  test(`${library}: equal values are cancelled one by one or all`, async () => {
    const queue = make();
    const offers = [];
    for (let i = 0; i < 5; i++) offers.push(await queue.offer("same", { due: 7 }));
    await queue.offerMany([{ value: "same", due: 8 }, { value: "other", due: 7 }]);
    assert.deepEqual([await queue.cancel(offers[2]), await queue.cancel(offers[2])], [true, false]);
    assert.equal((await scheduled()).length, 6);
    assert.deepEqual([await queue.cancelValue("same"), await queue.cancelValue("same")], [5, 0]);
    assert.deepEqual(await scheduled(), ["other@7"]);
  });

  test(`${library}: one of many at one time is found by its handle`, async () => {
    const queue = make();
    const handles = await queue.offerMany(Array.from({ length: 500 }, (_, i) => ({ value: `${i}`, due: 7 })));
    for (const i of [0, 17, 250, 499]) {
      assert.deepEqual([await queue.cancel(handles[i]), await queue.cancel(handles[i])], [true, false]);
      assert.ok(!(await scheduled()).includes(`${i}@7`));
    }
    assert.equal((await scheduled()).length, 496);
  });

  test(`${library}: a moved offer has a new handle`, async () => {
    const queue = make();
    await queue.offer("first", { due: 5 });
    const offer = await queue.offer("x", { due: 7 });
    const before = await redis.lrangeBuffer(L, 0, -1);
    const moved = await queue.reschedule(offer, new Date(9));
    assert.equal(moved, `${offer.slice(0, -1)}9`);
    assert.deepEqual(await scheduled(), ["first@5", "x@9"]);
    assert.deepEqual(await redis.lrangeBuffer(L, 0, -1), before);
    assert.equal(await queue.cancel(offer), false);
    assert.equal(await queue.reschedule(offer, 10), null);
    assert.deepEqual([await queue.cancel(moved), await queue.reschedule(moved, 10)], [true, null]);
  });

  test(`${library}: an entry that a consumer left in the list stays`, async () => {
    const queue = make();
    const offer = await queue.offer("x", { due: 7 });
    const element = await redis.lindexBuffer(L, 0);
    await redis.del(Z);
    assert.deepEqual([await queue.cancel(offer), await queue.cancelValue("x")], [false, 0]);
    const text = readFileSync(new URL("../lua/change.lua", import.meta.url), "utf8");
    assert.equal(await redis.eval(text, 2, Z, L, "remove", element), 0);
    assert.equal(await redis.llen(L), 1);
  });
}

test("a prefix of ioredis is refused", () => {
  const prefixed = new Redis(port, { keyPrefix: "app:", lazyConnect: true });
  assert.throws(() => new DelayedQueue(prefixed, "orders"), /keyPrefix 'app:'/);
});
