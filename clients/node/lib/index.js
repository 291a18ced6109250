import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

import { over } from "./clients.js";
import { delayMs, dueMs, encoder, givenId, keysOf, newId, pack, parseHandle, payloadOf } from "./layout.js";

function script(file) {
  const text = readFileSync(new URL(`../lua/${file}`, import.meta.url), "utf8");
  return { text, sha: createHash("sha1").update(text).digest("hex") };
}

const OFFER = script("offer.lua");
const CHANGE = script("change.lua");

export class DelayedQueue {
  #redis;
  #keys;
  #encode;
  #redisClock;
  #layout;
  #window;
  #now;

  constructor(client, name, options = {}) {
    const { codec = "json", clock = "producer", layout = "current", window = 600_000, keyPrefix, now = Date.now } = options;
    if (clock !== "producer" && clock !== "redis") {
      throw new TypeError(`clock ${clock}: 'producer' and 'redis' are known`);
    }
    if (layout !== "current" && layout !== "old") {
      throw new TypeError(`layout ${layout}: 'current' and 'old' are known`);
    }
    this.#redis = over(client);
    this.#keys = keysOf(name, keyPrefix);
    this.#encode = encoder(codec);
    this.#redisClock = clock === "redis";
    this.#layout = layout;
    this.#window = Math.max(1, delayMs(window));
    this.#now = now;
  }

  async offer(value, when) {
    const [handle] = await this.offerMany([{ ...when, value }]);
    return handle;
  }

  async offerMany(offers) {
    const ids = [];
    const keys = [this.#keys.delayed, this.#keys.list];
    const args = [this.#keys.channel, this.#window];
    for (const offer of offers) {
      const payload = this.#encode(offer.value);
      let key = 0;
      let id;
      if (offer.id == null) {
        id = newId(this.#layout);
      } else {
        id = givenId(offer.id, this.#layout, payload);
        key = keys.push(this.#keys.offers + id.toString("hex"));
      }
      ids.push(id);
      args.push(this.#time(offer), pack(this.#layout, id, payload), key);
    }
    if (ids.length === 0) return [];
    const dues = await this.#redis.run(OFFER, keys, args);
    return ids.map((id, i) => `${id.toString("hex")}-${dues[i]}`);
  }

  /** The due time, or + and the delay. */
  #time({ delay, due }) {
    if ((delay == null) === (due == null)) {
      throw new TypeError("offer: exactly one of delay and due is needed");
    }
    if (due != null) return String(dueMs(due));
    const ms = delayMs(delay);
    return this.#redisClock ? `+${ms}` : String(dueMs(Math.floor(this.#now()) + ms));
  }

  async cancel(handle) {
    const { id, due } = parseHandle(handle);
    return (await this.#change("cancel", due, id)) === 1;
  }

  async cancelValue(value) {
    const payload = this.#encode(value);
    let removed = 0;
    let cursor = "0";
    do {
      const { next, members } = await this.#redis.page(this.#keys.delayed, cursor);
      const found = members.filter((member) => payloadOf(member)?.equals(payload));
      if (found.length > 0) removed += await this.#change("remove", ...found);
      cursor = next;
    } while (cursor !== "0");
    return removed;
  }

  async reschedule(handle, due) {
    const { id, due: old } = parseHandle(handle);
    const ms = String(dueMs(due));
    const moved = await this.#change("move", old, id, ms, this.#keys.channel);
    return moved === 1 ? `${id.toString("hex")}-${ms}` : null;
  }

  async #change(...args) {
    return Number(await this.#redis.run(CHANGE, [this.#keys.delayed, this.#keys.list], args));
  }
}
