import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { delayMs, dueMs, encoder, givenId, keysOf, newId, pack, parseHandle, payloadOf } from "../lib/layout.js";

const file = (path) => readFileSync(new URL(path, import.meta.url), "utf8");

test("names map as Redisson maps them", () => {
  for (const [name, tagged] of [
    ["orders", "{orders}"],
    ["app:orders", "{app:orders}"],
    ["{app}:orders", "{app}:orders"],
    ["app:{orders}:q", "app:{orders}:q"],
    ["a{b", "a{b"],
  ]) {
    assert.deepEqual(keysOf(name), {
      delayed: `redisson_delay_queue_timeout:${tagged}`,
      list: `redisson_delay_queue:${tagged}`,
      channel: `redisson_delay_queue_channel:${tagged}`,
      offers: `delaybridge:offer:${tagged}:`,
    });
  }
});

test("only the keys of ids have a prefix, which ends with a colon", () => {
  assert.deepEqual(keysOf("orders", "team-a:"), { ...keysOf("orders"), offers: "team-a:offer:{orders}:" });
  for (const bad of ["", "team-a", "a{b}:", "a b:", "a*:", "\u00e9:", "x".repeat(64) + ":", null]) {
    assert.throws(() => keysOf("orders", bad), /keyPrefix/);
  }
});

test("recorded elements of Redisson are packed to the same bytes", () => {
  let seen = 0;
  for (const line of file("../../../tests/vectors/redisson.jsonl").trim().split("\n")) {
    const vector = JSON.parse(line);
    const member = Buffer.from(vector.member_hex, "hex");
    const layout = vector.layout === "dLc0" ? "old" : "current";
    const header = layout === "old" ? 16 : 17;
    const payload = payloadOf(member);
    assert.deepEqual(payload, member.subarray(header));
    assert.deepEqual(pack(layout, member.subarray(header - 16, header - 8), payload), member);
    if (vector.value_class !== "java.lang.String") continue;
    if (vector.codec === "StringCodec") {
      assert.deepEqual(encoder("string")(vector.value), payload);
      seen++;
    } else if (vector.codec === "TypedJsonJacksonCodec") {
      assert.deepEqual(JSON.parse(encoder("json")(vector.value)), JSON.parse(payload));
      seen++;
    }
  }
  assert.ok(seen > 50);
});

test("other bytes are no element", () => {
  const element = pack("current", Buffer.from("RANDOM8B"), Buffer.from("hello"));
  assert.equal(String(payloadOf(element)), "hello");
  const junk = [[], [8], [...element, 0], element.subarray(0, -1), [1, 2, 3, 4, 5, 6, 7, 8, ...Array(8).fill(255)]];
  for (const bytes of junk) assert.equal(payloadOf(Buffer.from(bytes)), undefined);
});

test("the shape that fits both layouts is never made", () => {
  assert.equal(String(payloadOf(Buffer.from("0841414141414141010000000000000000", "hex"))), "");
  assert.equal(String(payloadOf(Buffer.from("0841414141414143010000000000000000", "hex"))), "\0");
  assert.throws(() => givenId("4141414141414301", "current", Buffer.alloc(0)), RangeError);
  givenId("4141414141414301", "current", Buffer.alloc(1));
  for (let i = 0; i < 1000; i++) assert.ok([0x43, 0xc3].includes(newId("old")[7]));
});

test("codecs refuse what they cannot encode", () => {
  for (const value of [5, null, undefined, "\ud800", "x\udc00", "\ud800\ud800\udc00"]) {
    assert.throws(() => encoder("string")(value));
  }
  for (const value of [undefined, "\ud800", { "x\\\udfff": 1 }]) assert.throws(() => encoder("json")(value));
  // A backslash and text that looks like an escape.
  assert.equal(String(encoder("json")("\\ud800 \u{1f600}")), '"\\\\ud800 \u{1f600}"');
  assert.equal(String(encoder("json")(null)), "null");
});

test("times are rounded up", () => {
  assert.equal(delayMs(0.1), 1);
  assert.equal(dueMs(new Date(7)), 7);
  for (const wrong of [-1, NaN, Infinity, "1", new Date(NaN)]) {
    assert.throws(() => delayMs(wrong), RangeError);
    assert.throws(() => dueMs(wrong), RangeError);
  }
});

test("a handle of somebody else is refused", () => {
  assert.deepEqual(parseHandle("52414e444f4d3842-7"), { id: Buffer.from("RANDOM8B"), due: "7" });
  for (const wrong of ["", "x", "52414e444f4d3842", "52414e444f4d-7", "52414e444f4d3842-x", null]) {
    assert.throws(() => parseHandle(wrong), /not one that an offer returned/);
  }
});

test("the scripts are those of the project", () => {
  for (const script of ["offer.lua", "change.lua"]) {
    assert.equal(file(`../lua/${script}`), file(`../../lua/${script}`));
  }
});
