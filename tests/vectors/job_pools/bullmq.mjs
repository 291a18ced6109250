// Writes one delayed job with bullmq 5.81.5, so that its bytes can be recorded. Argument: a port of Redis.
import { Queue } from 'bullmq';
const queue = new Queue('mail', { connection: { host: '127.0.0.1', port: Number(process.argv[2]) } });
await queue.add('welcome', { user: 7, text: 'grüße' }, { delay: 3600_000, jobId: 'job-7', timestamp: 1893553445000 });
await queue.close();
