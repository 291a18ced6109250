/** The server refused a request, or did not answer it: then `kind` is `no-answer`, and it may have been done. */
export class JobError extends Error {
  /** The last part of the problem's type, such as `not-yours`. */
  readonly kind: string;
  readonly status: number;
}

/** A reserved job. */
export interface Job {
  id: string;
  topic: string;
  token: string;
  /** The body as it was added: text, or bytes that are not text. */
  body: string | Buffer;
  contentType?: string;
  attempt: number;
  triesLeft: number;
  /** How long this consumer has it, without a touch, in ms. */
  ttr: number;
}

/** Durations are in ms. */
export interface AddOptions {
  /** With an id the call can be repeated. */
  id?: string;
  delay?: number;
  due?: Date | number;
  ttr?: number;
  tries?: number;
  ttl?: number;
}

/** The job queue at an address, as `http://127.0.0.1:7777`. A request is never repeated here. */
export class Jobs {
  constructor(url: string | URL, options?: { token?: string; timeout?: number });
  /** Adds a job; the answer is its id. The body is a text, bytes, or anything that JSON can express. */
  add(topic: string, body: unknown, options?: AddOptions): Promise<string>;
  /** Takes up to `count` due jobs, and waits for the first of them. */
  pop(topics: string | string[], options?: { count?: number; wait?: number; ttr?: number }): Promise<Job[]>;
  finish(job: Job): Promise<void>;
  /** Schedules a job again. After its last try it is dead. */
  release(job: Job, options?: { delay?: number; countAttempt?: boolean; reason?: string }): Promise<void>;
  /** Restarts the time to run. */
  touch(job: Job, options?: { ttr?: number }): Promise<void>;
  /** Makes a job dead. */
  bury(job: Job, options?: { reason?: string }): Promise<void>;
}

/** Takes jobs and calls `handle` with each. The signal is aborted if another consumer got the job. */
export class Worker {
  constructor(
    jobs: Jobs,
    topics: string | string[],
    handle: (job: Job, lost: AbortSignal) => unknown,
    options?: { concurrency?: number; wait?: number },
  );
  /** Works until `stop` is called, and completes the jobs in hand. */
  run(): Promise<void>;
  stop(): void;
}
