import assert from "node:assert/strict";
import { createServer } from "node:http";
import test, { afterEach, beforeEach } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { JobError, Jobs, Worker } from "../lib/jobs.js";

const POPPED = { id: "t~1", topic: "t", token: "k", body: "{}", attempt: 1, tries_left: 2, ttr_ms: 300 };
let server;
let requests;
let answers;
let jobs;

/** Answers with what a test has put into `answers`, and keeps the requests. */
beforeEach(async () => {
  requests = [];
  answers = {};
  server = createServer(async (request, response) => {
    let body = "";
    for await (const part of request) body += part;
    requests.push(`${request.method} ${request.url} ${body} ${request.headers.authorization}`);
    const [status, answer] = answers[request.url.split("?")[0].split("/").pop()]?.shift() ?? [204];
    response.writeHead(status).end(answer && JSON.stringify(answer));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  jobs = new Jobs(`http://127.0.0.1:${server.address().port}`, { token: "s" });
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

test("requests are those of the API", async () => {
  answers.jobs = [[200, { id: "t~1" }], [200, { id: "t~2" }]];
  answers.pop = [[200, { jobs: [POPPED, { ...POPPED, body: undefined, body_base64: "/wA=" }] }]];
  assert.equal(await jobs.add("t", { a: null }, { id: "1", delay: 1499.5, tries: 3 }), "t~1");
  assert.equal(await jobs.add("t", Uint8Array.of(255), { due: new Date(7) }), "t~2");
  const [first, second] = await jobs.pop(["t", "u"], { count: 2, wait: 2000 });
  assert.deepEqual([first.body, first.ttr, first.triesLeft], ["{}", 300, 2]);
  assert.deepEqual([...second.body], [255, 0]);
  assert.deepEqual(await jobs.pop("t"), []);
  await jobs.release(first, { delay: 1000, countAttempt: false, reason: "no" });
  await jobs.touch(first);
  await jobs.bury(first);
  await jobs.finish(first);
  assert.deepEqual(requests, [
    'POST /v1/topics/t/jobs {"body":{"a":null},"id":"1","tries":3,"delay_ms":1500} Bearer s',
    'POST /v1/topics/t/jobs {"body_base64":"/w==","due_ms":7} Bearer s',
    "POST /v1/topics/t%2Cu/pop?count=2&wait_ms=2000  Bearer s",
    "POST /v1/topics/t/pop?count=1&wait_ms=0  Bearer s",
    'PUT /v1/jobs/t~1/release {"token":"k","delay_ms":1000,"count_attempt":false,"reason":"no"} Bearer s',
    'PUT /v1/jobs/t~1/touch {"token":"k"} Bearer s',
    'PUT /v1/jobs/t~1/bury {"token":"k"} Bearer s',
    'PUT /v1/jobs/t~1/finish {"token":"k"} Bearer s',
  ]);
});

test("a problem is an error with its kind", async () => {
  answers.finish = [[409, { type: "https://example.org/x.md#not-yours", detail: "too late" }], [502, "?"]];
  for (const [kind, status] of [["not-yours", 409], ["unexpected", 502]]) {
    await assert.rejects(jobs.finish(POPPED), (e) => e instanceof JobError && e.kind === kind && e.status === status);
  }
  await assert.rejects(new Jobs("http://127.0.0.1:1").pop("t"), { kind: "no-answer" });
});

for (const fails of [false, true]) {
  test(`a worker touches while it works and stops in order, ${fails ? "after an error" : "after success"}`, async () => {
    answers.pop = [[200, { jobs: [POPPED] }]];
    const worker = new Worker(jobs, "t", async () => {
      worker.stop();
      await sleep(500);
      if (fails) throw new Error("no");
    }, { concurrency: 2, wait: 0 });
    await worker.run();
    const seen = (word) => requests.filter((request) => request.includes(word)).length;
    const verdict = fails ? "/release" : "/finish";
    assert.ok(seen("/touch") >= 2, String(requests));
    assert.equal(seen(verdict), 1);
    assert.ok(requests.at(-1).includes(verdict));
  });
}

test("a lost job ends its work", async () => {
  answers.pop = [[200, { jobs: [POPPED] }]];
  answers.touch = [[409, { type: "x#not-yours", detail: "too late" }]];
  let aborted;
  const worker = new Worker(jobs, "t", async (_, lost) => {
    worker.stop();
    await sleep(5000, undefined, { signal: lost }).catch(() => {});
    aborted = lost.aborted;
  }, { wait: 0 });
  await worker.run();
  assert.equal(aborted, true);
});
