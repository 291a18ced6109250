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
  /** 0 to 9: of the ready jobs, one with a higher priority is handed out first. */
  priority?: number;
  /** A key: while another job of the topic holds it, nothing is added, and the id is that of the other job. */
  unique?: string;
  /** How long the key is held. */
  uniqueFor?: number;
  /** `finished` (the default): the key is free as soon as the job is gone. */
  uniqueUntil?: "finished" | "expired";
}

/** What is left out stays as it is. */
export interface ChangeOptions {
  body?: unknown;
  priority?: number;
  delay?: number;
  due?: Date | number;
  /** A job that has another due time is refused. */
  ifDue?: Date | number;
}

export interface RecurringOptions {
  /** Minute, hour, day of the month, month, day of the week. */
  cron: string;
  /** As the IANA database names it; UTC if not given. */
  zone?: string;
  /** What becomes of missed firings; `once` if not given. */
  missed?: "skip" | "once" | "all";
  ttr?: number;
  tries?: number;
  ttl?: number;
  priority?: number;
}

/** A recurring job, as the API shows it. */
export interface RecurringJob {
  name: string;
  cron?: string;
  zone?: string;
  missed?: "skip" | "once" | "all";
  paused: boolean;
  next_ms?: number;
  ttr_ms?: number;
  tries?: number;
  ttl_ms?: number;
  priority?: number;
  size: number;
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
  /** Changes a job that waits; the answer is whether anything was changed. It can be repeated; only a delay starts again. */
  change(id: string, options: ChangeOptions): Promise<boolean>;
  /** Removes a job for good, whatever its state. */
  delete(id: string): Promise<void>;
  /** Finishes up to 100 jobs; the answer has the outcome of each: `finished`, or the kind of a problem. */
  finishAll(jobs: Job[]): Promise<string[]>;
  /** The same with `released`, `dead` and `expired`. */
  releaseAll(jobs: Job[], options?: { delay?: number; countAttempt?: boolean; reason?: string }): Promise<string[]>;
  /** The same with `touched`. */
  touchAll(jobs: Job[], options?: { ttr?: number }): Promise<string[]>;
  /** Removes waiting jobs of a topic for good; `left` still wait. */
  empty(topic: string, options?: { limit?: number }): Promise<{ count: number; left: number }>;
  /** Removes a topic with all of its jobs; the answer is their number. Jobs in use keep it, unless it is forced. */
  destroy(topic: string, options?: { force?: boolean }): Promise<number>;
  /** Adds a recurring job, or changes it; the answer is its next firing, unless it is paused. It can be repeated. */
  setRecurring(topic: string, name: string, body: unknown, options: RecurringOptions): Promise<number | undefined>;
  /** The recurring jobs of a topic, without their bodies. */
  recurring(topic: string): Promise<RecurringJob[]>;
  /** Lets a recurring job fire no more until it is resumed. */
  pauseRecurring(topic: string, name: string): Promise<void>;
  /** Firings during the pause are not made up for. */
  resumeRecurring(topic: string, name: string): Promise<void>;
  /** Jobs that it has added stay. */
  deleteRecurring(topic: string, name: string): Promise<void>;
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
