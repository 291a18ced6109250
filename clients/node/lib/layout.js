// Keys, elements and handles. Pure: no connection, no clock.

import { randomBytes } from "node:crypto";

const MOST = 2 ** 53;
/** Visible ASCII without braces and the characters of patterns, and a colon at the end. */
const PREFIX = /^[!#-&(-)+->@-Z_-z|~]{0,63}:$/;

/** The keys of the queue with this mapped name. */
export function keysOf(name, prefix = "delaybridge:") {
  if (typeof name !== "string" || name === "") {
    throw new TypeError("name of the delayed queue: not a text with at least one character");
  }
  if (typeof prefix !== "string" || !PREFIX.test(prefix)) {
    throw new TypeError(`keyPrefix ${prefix}: up to 64 visible ASCII characters without braces, ending with ':'`);
  }
  const tagged = name.includes("{") ? name : `{${name}}`;
  return {
    delayed: `redisson_delay_queue_timeout:${tagged}`,
    list: `redisson_delay_queue:${tagged}`,
    channel: `redisson_delay_queue_channel:${tagged}`,
    offers: `${prefix}offer:${tagged}:`,
  };
}

function encodeText(value) {
  if (typeof value !== "string") {
    throw new TypeError(`encode a value with codec 'string': ${typeof value} is not a string`);
  }
  if (/\p{Surrogate}/u.test(value)) {
    throw new RangeError("encode a value with codec 'string': a surrogate without its partner has no UTF-8 form");
  }
  return Buffer.from(value);
}

function encodeJson(value) {
  const text = JSON.stringify(value);
  if (text === undefined) {
    throw new TypeError(`encode a value with codec 'json': ${typeof value} has no JSON form`);
  }
  // JSON.stringify writes a surrogate as an escape if, and only if, it has no partner.
  if (text.includes("\\ud") && /(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(text)) {
    throw new RangeError("encode a value with codec 'json': a surrogate without its partner has no UTF-8 form");
  }
  return Buffer.from(text);
}

export function encoder(codec) {
  if (typeof codec === "function") {
    return (value) => Buffer.from(codec(value));
  }
  if (codec === "json") return encodeJson;
  if (codec === "string") return encodeText;
  throw new TypeError(`codec ${codec}: 'string', 'json' and functions from a value to bytes are known`);
}

/** Eight random bytes that leave no doubt about the layout, whatever the payload is. */
export function newId(layout) {
  for (;;) {
    const id = randomBytes(8);
    if (layout !== "old") {
      if (!ambiguous(id)) return id;
    } else {
      // Redisson draws a long and packs it as a double.
      id.writeDoubleLE(Number(id.readBigInt64LE()));
      if (id[7] === 0x43 || id[7] === 0xc3) return id;
    }
  }
}

function ambiguous(id) {
  return id[7] === 1 && (id[6] === 0x43 || id[6] === 0xc3);
}

export function givenId(id, layout, payload) {
  const hex = typeof id === "string" && /^[0-9a-f]{16}$/i.test(id);
  if (!hex && !(id instanceof Uint8Array && id.length === 8)) {
    throw new RangeError(`id ${id}: not 8 bytes, or 16 hexadecimal digits`);
  }
  const given = hex ? Buffer.from(id, "hex") : Buffer.from(id);
  if (layout !== "old" && payload.length === 0 && ambiguous(given)) {
    throw new RangeError(`id ${given.toString("hex")}: with an empty payload an id cannot end with 4301 or c301`);
  }
  return given;
}

export function pack(layout, id, payload) {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(payload.length));
  return Buffer.concat([layout === "old" ? Buffer.alloc(0) : Buffer.of(8), id, length, payload]);
}

/** The payload, or undefined if the bytes are not an element. */
export function payloadOf(element) {
  const fits = (header) =>
    element.length >= header && element.readBigUInt64LE(header - 8) === BigInt(element.length - header);
  const current = fits(17) && element[0] === 8;
  if (fits(16) && !(current && element[7] !== 0x43 && element[7] !== 0xc3)) {
    return element.subarray(16);
  }
  return current ? element.subarray(17) : undefined;
}

/** A delay in ms, rounded up: never early. */
export function delayMs(delay) {
  if (typeof delay !== "number" || !(delay >= 0 && delay <= MOST)) {
    throw new RangeError(`delay ${delay}: not a number of milliseconds from 0 on`);
  }
  return Math.ceil(delay);
}

export function dueMs(due) {
  const ms = due instanceof Date ? due.getTime() : due;
  if (typeof ms !== "number" || !(ms >= 0 && ms <= MOST)) {
    throw new RangeError(`due time ${due}: neither a Date nor milliseconds since 1970`);
  }
  return Math.ceil(ms);
}

export function parseHandle(handle) {
  const parts = /^([0-9a-f]{16})-(\d+)$/.exec(handle);
  if (!parts) {
    throw new RangeError(`handle ${handle}: not one that an offer returned`);
  }
  return { id: Buffer.from(parts[1], "hex"), due: parts[2] };
}
