// Drives the producer by lines of JSON, for the conformance kit: one command a line on standard input, one answer a line on
// standard output. The argument is the client library: ioredis (the default) or redis.

import { createInterface } from "node:readline";

import { DelayedQueue } from "./lib/index.js";

const library = process.argv[2] ?? "ioredis";
const FEATURES = ["batch", "cancel", "cancel_value", "reschedule", "ids", "clock_redis", "clock_offset"];
let client;
let queue;

const address = (node) => {
  const at = node.lastIndexOf(":");
  return { host: node.slice(0, at), port: Number(node.slice(at + 1)) };
};

async function connect({ redis, sentinel, cluster }) {
  if (library === "ioredis") {
    const { Cluster, Redis } = await import("ioredis");
    if (sentinel) return new Redis({ sentinels: sentinel.nodes.map(address), name: sentinel.master });
    return cluster ? new Cluster(cluster.map(address)) : new Redis(redis);
  }
  const { createClient, createCluster, createSentinel } = await import("redis");
  let made;
  if (sentinel) made = createSentinel({ name: sentinel.master, sentinelRootNodes: sentinel.nodes.map(address) });
  else if (cluster) made = createCluster({ rootNodes: cluster.map((node) => ({ url: `redis://${node}` })) });
  else made = createClient({ url: redis });
  made.on("error", (error) => console.error(String(error)));
  return await made.connect();
}

async function close() {
  if (client) await (library === "ioredis" ? client.quit() : client.close());
  client = queue = undefined;
}

async function open(command) {
  await close();
  const { codec, clock, layout = "current", clock_offset_ms: offset = 0 } = command;
  client = await connect(command);
  queue = new DelayedQueue(client, command.queue, { codec, clock, layout, now: () => Date.now() + offset });
  return { name: `node 0.1.0 ${library}`, features: FEATURES, layout };
}

const offer = ({ value, delay_ms: delay, due_ms: due, id }) => ({ value, delay, due, id });

async function answer(command) {
  if (command.op === "open") return open(command);
  if (command.op === "close") {
    await close();
    return {};
  }
  if (!queue) throw new Error(`${command.op}: no queue is open`);
  switch (command.op) {
    case "offer":
      return { offer: (await queue.offerMany([offer(command)]))[0] };
    case "offer_batch":
      return { offers: await queue.offerMany(command.offers.map(offer)) };
    case "cancel":
      if ("offer" in command) return { removed: Number(await queue.cancel(command.offer)) };
      return { removed: await queue.cancelValue(command.value) };
    case "reschedule": {
      const moved = await queue.reschedule(command.offer, command.due_ms);
      return { moved: moved !== null, offer: moved ?? command.offer };
    }
    default:
      return { ok: false, error: `no command ${command.op}`, unsupported: true };
  }
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const command = JSON.parse(line);
  let found;
  try {
    found = { ok: true, ...(await answer(command)) };
  } catch (error) {
    found = { ok: false, error: String(error).slice(0, 2000) };
  }
  process.stdout.write(`${JSON.stringify({ n: command.n, ...found })}\n`);
}
await close();
