/** A client of ioredis: `Redis` or `Cluster`, without `keyPrefix`. */
export interface IoredisClient {
  evalsha(...args: any[]): Promise<unknown>;
  eval(...args: any[]): Promise<unknown>;
  zscanBuffer(...args: any[]): Promise<[cursor: Buffer, elements: Buffer[]]>;
}

/** A client of `redis` 5 or later: what `createClient`, `createCluster` and `createSentinel` return. */
export interface NodeRedisClient {
  evalSha(...args: any[]): Promise<unknown>;
  eval(...args: any[]): Promise<unknown>;
  withTypeMapping(mapping: any): unknown;
}

export interface Options<T = unknown> {
  /**
   * `json` (the default; Redisson's TypedJsonJacksonCodec), `string` (StringCodec), or a function that encodes a value.
   */
  codec?: "json" | "string" | ((value: T) => Uint8Array);
  /** What delays are added to: this machine's clock (the default, as in Redisson), or that of Redis. */
  clock?: "producer" | "redis";
  /** `old` if the Redisson clients of this queue are of version 3.21.0 or earlier. */
  layout?: "current" | "old";
  /** How long an offer with an id is remembered after it was made, in ms; ten minutes if not given. */
  window?: number;
  /**
   * What the keys begin with that remember ids, as `redis.key_prefix` of the daemon: `delaybridge:` if not given. The same for all
   * producers of the queue.
   */
  keyPrefix?: string;
  /** The producer's clock, in ms since 1970. */
  now?: () => number;
}

/** Exactly one of `delay` and `due`. */
export interface When {
  /** Time from now, in ms. */
  delay?: number;
  /** The due time; a number is ms since 1970. */
  due?: Date | number;
  /**
   * 8 bytes, or 16 hexadecimal digits, that only this offer has. A repeated offer with it changes nothing, and returns the
   * same handle.
   */
  id?: string | Uint8Array;
}

export interface Offer<T = unknown> extends When {
  value: T;
}

/**
 * A delayed queue of Redisson. Every call runs one script; only `cancelValue` reads the queue before.
 *
 * Errors of the client are thrown unchanged. If one of them leaves open whether an offer was made (a time-out), repeat it
 * with the same `id`.
 */
export class DelayedQueue<T = unknown> {
  /**
   * @param client is neither configured nor closed here
   * @param name the name of the destination queue, as Redisson's NameMapper maps it
   */
  constructor(client: IoredisClient | NodeRedisClient, name: string, options?: Options<T>);
  /** Schedules a value; the answer is the handle to cancel or to move it. */
  offer(value: T, when: When): Promise<string>;
  /** Schedules all values in one script: all or none of them. A thousand at a time is a good number. */
  offerMany(offers: Iterable<Offer<T>>): Promise<string[]>;
  /** Cancels an offer by its handle; the answer is whether it was still scheduled. */
  cancel(handle: string): Promise<boolean>;
  /** Cancels all offers of an equal value: of the same bytes. The answer is their number. It reads the whole queue. */
  cancelValue(value: T): Promise<number>;
  /** Moves an offer to another time; the answer is its new handle, or null if it is no longer scheduled. */
  reschedule(handle: string, due: Date | number): Promise<string | null>;
}
