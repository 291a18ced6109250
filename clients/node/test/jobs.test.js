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
  assert.equal(await jobs.add("t", { a: null }, { id: "1", delay: 1499.5, tries: 3, priority: 9 }), "t~1");
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
    'POST /v1/topics/t/jobs {"body":{"a":null},"id":"1","tries":3,"priority":9,"delay_ms":1500} Bearer s',
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

test("waiting jobs are changed, jobs are settled together, and topics are emptied", async () => {
  answers["t~1"] = [[200, { changed: true }], [200, { changed: false }], [204]];
  assert.equal(await jobs.change("t~1", { body: null, delay: 1.5, ifDue: new Date(7) }), true);
  assert.equal(await jobs.change("t~1", { priority: 0, due: 9 }), false);
  await jobs.delete("t~1");
  const held = [1, 2].map((n) => ({ ...POPPED, id: `t~${n}` }));
  for (const [word, outcome] of Object.entries({ finish: "finished", release: "released", touch: "touched" })) {
    answers[word] = [[200, { jobs: [{ id: "t~1", outcome }, { id: "t~2", outcome: "not-yours" }] }]];
  }
  assert.deepEqual(await jobs.finishAll(held), ["finished", "not-yours"]);
  assert.deepEqual(await jobs.releaseAll(held, { delay: 2000, reason: "r" }), ["released", "not-yours"]);
  assert.deepEqual(await jobs.touchAll(held, { ttr: 1000 }), ["touched", "not-yours"]);
  assert.deepEqual(await jobs.finishAll([]), []);
  answers.empty = [[200, { count: 3, left: 1 }]];
  assert.deepEqual(await jobs.empty("t", { limit: 3 }), { count: 3, left: 1 });
  answers.t = [[200, { count: 4 }]];
  assert.equal(await jobs.destroy("t", { force: true }), 4);
  const both = '"jobs":[{"id":"t~1","token":"k"},{"id":"t~2","token":"k"}]';
  assert.deepEqual(requests, [
    'PATCH /v1/jobs/t~1 {"body":null,"delay_ms":2,"if_due_ms":7} Bearer s',
    'PATCH /v1/jobs/t~1 {"priority":0,"due_ms":9} Bearer s',
    "DELETE /v1/jobs/t~1  Bearer s",
    `POST /v1/jobs/finish {${both}} Bearer s`,
    `POST /v1/jobs/release {${both},"delay_ms":2000,"reason":"r"} Bearer s`,
    `POST /v1/jobs/touch {${both},"ttr_ms":1000} Bearer s`,
    'POST /v1/topics/t/empty {"limit":3} Bearer s',
    "DELETE /v1/topics/t?force=true  Bearer s",
  ]);
});

test("unique and recurring jobs are added", async () => {
  answers.jobs = [[200, { id: "t~1", created: false, existing: "t~1" }]];
  assert.equal(await jobs.add("t", "x", { unique: "a b", uniqueFor: 60_000, uniqueUntil: "expired" }), "t~1");
  answers.r = [[201, { next_ms: 5 }], [200, {}], [204]];
  assert.equal(await jobs.setRecurring("t", "r", [1], { cron: "0 3 * * *", zone: "Europe/Berlin", ttl: 1000 }), 5);
  assert.equal(await jobs.setRecurring("t", "r", Uint8Array.of(255), { cron: "@daily", missed: "all" }), undefined);
  await jobs.pauseRecurring("t", "r");
  await jobs.resumeRecurring("t", "r");
  await jobs.deleteRecurring("t", "r");
  answers.recurring = [[200, { recurring: [{ name: "a" }], next: "a" }], [200, { recurring: [{ name: "b" }] }]];
  assert.deepEqual((await jobs.recurring("t")).map(({ name }) => name), ["a", "b"]);
  const path = "/v1/topics/t/recurring/r";
  assert.deepEqual(requests, [
    'POST /v1/topics/t/jobs {"body":"x","unique":"a b","unique_for_ms":60000,"unique_until":"expired"} Bearer s',
    `PUT ${path} {"cron":"0 3 * * *","zone":"Europe/Berlin","ttl_ms":1000,"body":[1]} Bearer s`,
    `PUT ${path} {"cron":"@daily","missed":"all","body_base64":"/w=="} Bearer s`,
    `PUT ${path}/pause  Bearer s`,
    `PUT ${path}/resume  Bearer s`,
    `DELETE ${path}  Bearer s`,
    "GET /v1/topics/t/recurring  Bearer s",
    "GET /v1/topics/t/recurring?after=a  Bearer s",
  ]);
});
