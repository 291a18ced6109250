// A producer and a worker of BullMQ. Arguments: port of Redis, queue, or PREFIX/QUEUE, then what to do:
//
//   add FIRST COUNT DELAY_MS   adds jobs mail {"n":FIRST}, {"n":FIRST+1}, ...
//   deduplicated DELAY_MS      adds one with a deduplication id; prints the id of its job
//   counts                     prints BullMQ's own counts
//   job ID                     prints whether BullMQ finds a job
//   logged DELAY_MS            adds job `logged` with a log line
//   flow DELAY_MS              adds job `parent`, delayed, with two children, of which one fails, and runs these
//   pause                      pauses the queue
//   work                       runs a worker until the standard input ends, prints each payload, and "closed" at the end
"use strict";
const { FlowProducer, Queue, Worker } = require("bullmq");

const [port, place, verb, ...rest] = process.argv.slice(2);
const [name, prefix] = place.split("/").reverse();
const connection = { host: "127.0.0.1", port: Number(port) };
// An undefined prefix would be part of the names of connections.
const options = prefix === undefined ? { connection } : { connection, prefix };

async function main() {
  const queue = new Queue(name, options);
  try {
    switch (verb) {
      case "add": {
        const [first, count, delay] = rest.map(Number);
        const job = (_, n) => ({ name: "mail", data: { n: first + n }, opts: { delay, jobId: `job-${first + n}` } });
        await queue.addBulk(Array.from({ length: count }, job));
        break;
      }
      case "deduplicated": {
        const once = { delay: Number(rest[0]), deduplication: { id: "once" } };
        console.log((await queue.add("mail", { n: -1 }, once)).id);
        break;
      }
      case "logged": {
        const job = await queue.add("mail", { n: -2 }, { delay: Number(rest[0]), jobId: "logged" });
        await job.log("a line");
        break;
      }
      case "flow": {
        const producer = new FlowProducer(options);
        const child = (name, opts) => ({ name, queueName: "parts", data: {}, opts });
        await producer.add({
          name: "mail",
          queueName: name,
          data: { n: -3 },
          opts: { delay: Number(rest[0]), jobId: "parent" },
          children: [child("done", {}), child("fails", { ignoreDependencyOnFailure: true })],
        });
        const handle = async (job) => {
          if (job.name === "fails") throw new Error("as wanted");
          return { result: 1 };
        };
        const worker = new Worker("parts", handle, options);
        while ((await queue.getJobState("parent")) !== "delayed") await new Promise((resolve) => setTimeout(resolve, 20));
        await worker.close();
        await producer.close();
        break;
      }
      case "pause":
        await queue.pause();
        break;
      case "counts":
        console.log(JSON.stringify(await queue.getJobCounts()));
        break;
      case "job":
        console.log((await queue.getJob(rest[0])) ? "found" : "none");
        break;
      case "work": {
        const handle = async (job) => console.log(JSON.stringify(job.data));
        const worker = new Worker(name, handle, { ...options, concurrency: 4, removeOnComplete: { count: 0 } });
        await worker.waitUntilReady();
        await new Promise((resolve) => process.stdin.resume().on("end", resolve));
        await worker.close();
        console.log("closed");
        break;
      }
      default:
        throw new Error(`unknown verb ${verb}`);
    }
  } finally {
    await queue.close();
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
