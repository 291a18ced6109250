// What the two client libraries have in common: scripts with bytes, and a page of a sorted set.

function isMissing(error) {
  return error instanceof Error && error.message.startsWith("NOSCRIPT");
}

class Ioredis {
  constructor(client) {
    // A cluster has the prefix in the options of its nodes.
    const prefix = client.options?.keyPrefix || client.options?.redisOptions?.keyPrefix;
    if (prefix) {
      throw new Error(
        `delayed queue: the ioredis client puts keyPrefix '${prefix}' before Redisson's keys; use a client without it`,
      );
    }
    this.client = client;
  }

  async run(script, keys, args) {
    try {
      return await this.client.evalsha(script.sha, keys.length, ...keys, ...args);
    } catch (error) {
      if (!isMissing(error)) throw error;
      return await this.client.eval(script.text, keys.length, ...keys, ...args);
    }
  }

  async page(key, cursor) {
    const [next, flat] = await this.client.zscanBuffer(key, cursor, "COUNT", 100);
    return { next: String(next), members: flat.filter((_, i) => i % 2 === 0) };
  }
}

// '$', the type of a bulk string in the mapping of types.
const BULK = 36;

class NodeRedis {
  constructor(client) {
    this.client = client;
    this.bytes = client.withTypeMapping({ [BULK]: Buffer });
  }

  async run(script, keys, args) {
    const options = { keys, arguments: args.map((arg) => (typeof arg === "number" ? String(arg) : arg)) };
    try {
      return await this.client.evalSha(script.sha, options);
    } catch (error) {
      if (!isMissing(error)) throw error;
      return await this.client.eval(script.text, options);
    }
  }

  async page(key, cursor) {
    const { cursor: next, members } = await this.bytes.zScan(key, cursor, { COUNT: 100 });
    return { next: String(next), members: members.map(({ value }) => value) };
  }
}

/** The library is recognised by the names of its methods. */
export function over(client) {
  if (typeof client?.evalsha === "function" && typeof client.zscanBuffer === "function") return new Ioredis(client);
  if (typeof client?.evalSha === "function" && typeof client.withTypeMapping === "function") return new NodeRedis(client);
  throw new TypeError("delayed queue: neither a client of ioredis nor one of redis 5 or later");
}
