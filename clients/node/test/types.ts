// Compiled only: the declarations fit both client libraries.
import { Cluster, Redis } from "ioredis";
import { createClient, createCluster, createSentinel } from "redis";

import { DelayedQueue } from "../lib/index.js";
import { Jobs, Worker } from "../lib/jobs.js";

interface Order {
  orderId: number;
}

const orders = new DelayedQueue<Order>(new Redis(), "order:timeout", { codec: (order) => Buffer.from(String(order.orderId)) });
const offer: string = await orders.offer({ orderId: 1 }, { delay: 1000 });
const moved: string | null = await orders.reschedule(offer, new Date());
const offers: string[] = await orders.offerMany([{ value: { orderId: 1 }, due: new Date(), id: new Uint8Array(8) }]);
const was: boolean = await orders.cancel(moved ?? offers[0]);
const n: number = await orders.cancelValue({ orderId: 1 });
// @ts-expect-error: another type of value
await orders.offer("text", { delay: n + Number(was) });
// @ts-expect-error: not a client
new DelayedQueue({}, "q");

new DelayedQueue(new Cluster([]), "q", { codec: "string", clock: "redis", layout: "old", window: 1000, now: Date.now });
new DelayedQueue(createClient(), "q");
new DelayedQueue(createCluster({ rootNodes: [] }), "q");
new DelayedQueue(createSentinel({ name: "m", sentinelRootNodes: [] }), "q");

const jobs = new Jobs("http://127.0.0.1:7777");
const changed: boolean = await jobs.change("t~1", { body: null, priority: 1, ifDue: new Date() });
const id: string = await jobs.add("t", { changed }, { priority: 9, unique: "k", uniqueFor: 1000, uniqueUntil: "expired" });
const next: number | undefined = await jobs.setRecurring("t", "nightly", id, { cron: "@daily", missed: "skip" });
// @ts-expect-error: without an expression
await jobs.setRecurring("t", "nightly", next, { zone: "UTC" });
const names: string[] = (await jobs.recurring("t")).map(({ name }) => name);
const { left }: { left: number } = await jobs.empty("t", { limit: names.length });
const outcomes: string[] = await jobs.finishAll(await jobs.pop("t", { count: left }));
new Worker(jobs, ["a"], async (job) => jobs.touch(job, { ttr: 1 }), { concurrency: outcomes.length }).stop();
