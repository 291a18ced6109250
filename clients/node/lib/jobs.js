// A client of delaybridge's job queue over HTTP, and a worker. It needs nothing but Node.js.

import { setTimeout as sleep } from "node:timers/promises";

/** The server refused a request, or did not answer it: then `kind` is `no-answer`, and it may have been done. */
export class JobError extends Error {
  constructor(kind, status, detail, options) {
    super(`${kind}: ${detail}`, options);
    this.name = "JobError";
    this.kind = kind;
    this.status = status;
  }
}

function defined(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function ms(duration) {
  return duration === undefined ? undefined : Math.ceil(duration);
}

function given(body) {
  return body instanceof Uint8Array ? { body_base64: Buffer.from(body).toString("base64") } : { body };
}

function recurringPath(topic, name) {
  return `/v1/topics/${encodeURIComponent(topic)}/recurring/${encodeURIComponent(name)}`;
}

export class Jobs {
  #url;
  #headers;
  #timeout;

  constructor(url, { token, timeout = 10_000 } = {}) {
    this.#url = String(url).replace(/\/$/, "");
    this.#headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
    this.#timeout = timeout;
  }

  async add(topic, body, { id, delay, due, ttr, tries, ttl, priority, unique, uniqueFor, uniqueUntil } = {}) {
    const times = { delay_ms: ms(delay), due_ms: ms(due?.valueOf()), ttr_ms: ms(ttr), ttl_ms: ms(ttl) };
    const held = { unique, unique_for_ms: ms(uniqueFor), unique_until: uniqueUntil };
    const fields = defined({ ...given(body), id, tries, priority, ...times, ...held });
    return (await this.#request("POST", `/v1/topics/${encodeURIComponent(topic)}/jobs`, fields)).id;
  }

  async change(id, { body, priority, delay, due, ifDue } = {}) {
    const times = { delay_ms: ms(delay), due_ms: ms(due?.valueOf()), if_due_ms: ms(ifDue?.valueOf()) };
    const fields = defined({ ...(body !== undefined && given(body)), priority, ...times });
    return (await this.#request("PATCH", `/v1/jobs/${encodeURIComponent(id)}`, fields)).changed;
  }

  async delete(id) {
    await this.#request("DELETE", `/v1/jobs/${encodeURIComponent(id)}`);
  }

  async pop(topics, { count = 1, wait = 0, ttr } = {}) {
    const query = new URLSearchParams(defined({ count, wait_ms: ms(wait), ttr_ms: ms(ttr) }));
    const path = `/v1/topics/${encodeURIComponent([topics].flat().join(","))}/pop?${query}`;
    const found = await this.#request("POST", path, undefined, wait);
    return (found?.jobs ?? []).map(({ body, body_base64: bytes, content_type: contentType, tries_left: triesLeft, ...job }) => ({
      id: job.id,
      topic: job.topic,
      token: job.token,
      body: body ?? Buffer.from(bytes, "base64"),
      contentType,
      attempt: job.attempt,
      triesLeft,
      ttr: job.ttr_ms,
    }));
  }

  async finish(job) {
    await this.#verdict(job, "finish", {});
  }

  async release(job, { delay, countAttempt, reason } = {}) {
    await this.#verdict(job, "release", { delay_ms: ms(delay), count_attempt: countAttempt, reason });
  }

  async touch(job, { ttr } = {}) {
    await this.#verdict(job, "touch", { ttr_ms: ms(ttr) });
  }

  async bury(job, { reason } = {}) {
    await this.#verdict(job, "bury", { reason });
  }

  finishAll(jobs) {
    return this.#verdicts(jobs, "finish", {});
  }

  releaseAll(jobs, { delay, countAttempt, reason } = {}) {
    return this.#verdicts(jobs, "release", { delay_ms: ms(delay), count_attempt: countAttempt, reason });
  }

  touchAll(jobs, { ttr } = {}) {
    return this.#verdicts(jobs, "touch", { ttr_ms: ms(ttr) });
  }

  async empty(topic, { limit } = {}) {
    return this.#request("POST", `/v1/topics/${encodeURIComponent(topic)}/empty`, defined({ limit }));
  }

  async destroy(topic, { force = false } = {}) {
    const path = `/v1/topics/${encodeURIComponent(topic)}${force ? "?force=true" : ""}`;
    return (await this.#request("DELETE", path)).count;
  }

  async setRecurring(topic, name, body, { cron, zone, missed, ttr, tries, ttl, priority }) {
    const fields = defined({ cron, zone, missed, tries, priority, ttr_ms: ms(ttr), ttl_ms: ms(ttl), ...given(body) });
    return (await this.#request("PUT", recurringPath(topic, name), fields)).next_ms;
  }

  async recurring(topic) {
    const found = [];
    for (let after = ""; ; ) {
      const page = await this.#request("GET", `/v1/topics/${encodeURIComponent(topic)}/recurring${after}`);
      found.push(...page.recurring);
      if (page.next === undefined) return found;
      after = `?${new URLSearchParams({ after: page.next })}`;
    }
  }

  async pauseRecurring(topic, name) {
    await this.#request("PUT", `${recurringPath(topic, name)}/pause`);
  }

  async resumeRecurring(topic, name) {
    await this.#request("PUT", `${recurringPath(topic, name)}/resume`);
  }

  async deleteRecurring(topic, name) {
    await this.#request("DELETE", recurringPath(topic, name));
  }

  async #verdicts(jobs, verdict, fields) {
    const held = jobs.map(({ id, token }) => ({ id, token }));
    if (held.length === 0) return [];
    const answer = await this.#request("POST", `/v1/jobs/${verdict}`, defined({ jobs: held, ...fields }));
    return answer.jobs.map(({ outcome }) => outcome);
  }

  async #verdict(job, verdict, fields) {
    const path = `/v1/jobs/${encodeURIComponent(job.id)}/${verdict}`;
    await this.#request("PUT", path, defined({ token: job.token, ...fields }));
  }

  async #request(method, path, fields, wait = 0) {
    const signal = AbortSignal.timeout(this.#timeout + wait);
    const body = fields && JSON.stringify(fields);
    let response;
    let answer;
    try {
      response = await fetch(this.#url + path, { method, headers: this.#headers, body, signal });
      answer = await response.text();
    } catch (error) {
      throw new JobError("no-answer", 0, `${method} ${path.split("?")[0]}: ${error.cause ?? error}`, { cause: error });
    }
    if (response.ok) return answer ? JSON.parse(answer) : undefined;
    let problem = {};
    try {
      problem = JSON.parse(answer);
    } catch {
      // Not from the server itself.
    }
    if (typeof problem?.type !== "string") throw new JobError("unexpected", response.status, answer.slice(0, 200));
    throw new JobError(problem.type.split("#").pop(), response.status, problem.detail);
  }
}

export class Worker {
  #jobs;
  #topics;
  #handle;
  #concurrency;
  #wait;
  #stopping = new AbortController();

  constructor(jobs, topics, handle, { concurrency = 1, wait = 2000 } = {}) {
    this.#jobs = jobs;
    this.#topics = topics;
    this.#handle = handle;
    this.#concurrency = concurrency;
    this.#wait = wait;
  }

  stop() {
    this.#stopping.abort();
  }

  async run() {
    const { signal } = this.#stopping;
    const working = new Set();
    let pause = 100;
    while (!signal.aborted) {
      // Nothing is taken that has no place.
      if (working.size >= this.#concurrency) {
        await Promise.race(working);
        continue;
      }
      let found = [];
      try {
        found = await this.#jobs.pop(this.#topics, { wait: this.#wait });
        pause = 100;
      } catch (error) {
        console.warn(`take a job of ${this.#topics}: ${error}`);
        await sleep(pause, undefined, { signal }).catch(() => {});
        pause = Math.min(2 * pause, 5000);
      }
      for (const job of found) {
        const work = this.#work(job).finally(() => working.delete(work));
        working.add(work);
      }
    }
    await Promise.all(working);
  }

  async #work(job) {
    const lost = new AbortController();
    const done = new AbortController();
    const touching = this.#touch(job, done.signal, lost);
    let failure;
    try {
      await this.#handle(job, lost.signal);
    } catch (error) {
      console.error(`work on job ${job.id}:`, error);
      failure = String(error) || "failed";
    }
    // No touch after the verdict.
    done.abort();
    await touching;
    try {
      await (failure === undefined ? this.#jobs.finish(job) : this.#jobs.release(job, { reason: failure.slice(0, 200) }));
    } catch (error) {
      console.warn(`end job ${job.id}: ${error}`);
    }
  }

  async #touch(job, signal, lost) {
    for (;;) {
      try {
        await sleep(job.ttr / 3, undefined, { signal });
      } catch {
        return;
      }
      try {
        await this.#jobs.touch(job);
      } catch (error) {
        console.warn(`keep job ${job.id}: ${error}`);
        if (error.kind === "not-yours" || error.kind === "no-such-job") {
          lost.abort(error);
          return;
        }
      }
    }
  }
}
