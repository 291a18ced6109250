// A producer and a worker of BullMQ. Arguments: port of Redis, queue, then what to do:
//
//   add FIRST COUNT DELAY_MS   adds jobs mail {"n":FIRST}, {"n":FIRST+1}, ...
//   deduplicated DELAY_MS      adds one with a deduplication id; prints the id of its job
//   counts                     prints BullMQ's own counts
//   job ID                     prints whether BullMQ finds a job
//   work                       runs a worker until the standard input ends, prints each payload, and "closed" at the end
"use strict";
const { Queue, Worker } = require("bullmq");

const [port, name, verb, ...rest] = process.argv.slice(2);
const connection = { host: "127.0.0.1", port: Number(port) };

async function main() {
  const queue = new Queue(name, { connection });
  try {
    switch (verb) {
      case "add": {
        const [first, count, delay] = rest.map(Number);
        const job = (_, n) => ({ name: "mail", data: { n: first + n }, opts: { delay, jobId: `job-${first + n}` } });
        await queue.addBulk(Array.from({ length: count }, job));
        break;
      }
      case "deduplicated": {
        const options = { delay: Number(rest[0]), deduplication: { id: "once" } };
        console.log((await queue.add("mail", { n: -1 }, options)).id);
        break;
      }
      case "counts":
        console.log(JSON.stringify(await queue.getJobCounts()));
        break;
      case "job":
        console.log((await queue.getJob(rest[0])) ? "found" : "none");
        break;
      case "work": {
        const handle = async (job) => console.log(JSON.stringify(job.data));
        const worker = new Worker(name, handle, { connection, concurrency: 4, removeOnComplete: { count: 0 } });
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
