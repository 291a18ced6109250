//! The commands that delaybridge sends, and the access to their keys that Redis's ACLs require.

use bytes::Bytes;

/// A Redis command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command {
    /// The name as an ACL rule spells it: `zadd`, `client|list`.
    pub name: &'static str,
    /// The access to its keys.
    pub access: Access,
    /// Whether it takes all of its keys at once; otherwise it takes one.
    together: bool,
    /// Arguments after the key with which the server accepts the command: it checks their number before it checks
    /// rights.
    arguments: &'static [&'static str],
}

/// The access of a command to its keys. One that only asks for a type or a length needs neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// Whether it returns their content.
    pub reads: bool,
    /// Whether it changes their content.
    pub writes: bool,
}

impl Access {
    /// Returns the access that includes both.
    pub fn and(self, other: Access) -> Access {
        Access { reads: self.reads || other.reads, writes: self.writes || other.writes }
    }
}

const LOOKS: Access = Access { reads: false, writes: false };
const READS: Access = Access { reads: true, writes: false };
const WRITES: Access = Access { reads: false, writes: true };
const BOTH: Access = Access { reads: true, writes: true };

const fn one(name: &'static str, access: Access, arguments: &'static [&'static str]) -> Command {
    Command { name, access, together: false, arguments }
}

const fn all(name: &'static str, access: Access, arguments: &'static [&'static str]) -> Command {
    Command { name, access, together: true, arguments }
}

impl Command {
    /// Returns whether it can only be checked with all of its keys.
    pub(super) fn needs_all_keys(&self) -> bool {
        self.together && *self != EVALSHA
    }

    /// Returns the command with these keys or channels, as words: once, or once for each key.
    pub(super) fn samples(&self, keys: &[Bytes]) -> Vec<Vec<Bytes>> {
        let words = |keys: &[Bytes]| -> Vec<Bytes> {
            let name = self.name.split('|').map(|word| Bytes::from_static(word.as_bytes()));
            // The keys of a script are counted; Redis assumes that it may do anything to them.
            let counted = if *self == EVALSHA {
                vec![Bytes::from_static(&[b'0'; 40]), Bytes::from(keys.len().to_string())]
            } else {
                Vec::new()
            };
            let arguments = self.arguments.iter().map(|word| Bytes::from_static(word.as_bytes()));
            name.chain(counted).chain(keys.iter().cloned()).chain(arguments).collect()
        };
        match keys {
            [] => vec![words(&[])],
            keys if self.together => vec![words(keys)],
            keys => keys.chunks(1).map(words).collect(),
        }
    }
}

macro_rules! commands {
    ($($constant:ident = $command:expr;)*) => {
        $(#[doc = concat!("`", stringify!($constant), "`")] pub const $constant: Command = $command;)*
        /// All commands.
        pub const ALL: &[Command] = &[$($constant),*];
    };
}

/// `SENTINEL GET-MASTER-ADDR-BY-NAME`: not among [`ALL`], because only sentinels know it.
pub const SENTINEL_MASTER: Command = one("sentinel|get-master-addr-by-name", LOOKS, &[]);
/// `WAITAOF`: not among [`ALL`], because servers before 7.2 do not know it.
pub const WAITAOF: Command = one("waitaof", LOOKS, &["0", "0", "1"]);

commands! {
    ACL_DRYRUN = one("acl|dryrun", LOOKS, &["default", "ping"]);
    ACL_WHOAMI = one("acl|whoami", LOOKS, &[]);
    ASKING = one("asking", LOOKS, &[]);
    CLIENT_INFO = one("client|info", LOOKS, &[]);
    CLIENT_LIST = one("client|list", LOOKS, &[]);
    CLIENT_SETNAME = one("client|setname", LOOKS, &["x"]);
    CLUSTER_SLOTS = one("cluster|slots", LOOKS, &[]);
    DEL = one("del", WRITES, &[]);
    EVALSHA = all("evalsha", BOTH, &[]);
    EXISTS = one("exists", LOOKS, &[]);
    GET = one("get", READS, &[]);
    HDEL = one("hdel", WRITES, &["f"]);
    HEXISTS = one("hexists", LOOKS, &["f"]);
    HGET = one("hget", READS, &["f"]);
    HGETALL = one("hgetall", READS, &[]);
    HINCRBY = one("hincrby", BOTH, &["f", "1"]);
    HKEYS = one("hkeys", READS, &[]);
    HLEN = one("hlen", LOOKS, &[]);
    HMGET = one("hmget", READS, &["f"]);
    HSCAN = one("hscan", READS, &["0"]);
    HSET = one("hset", WRITES, &["f", "v"]);
    HSETNX = one("hsetnx", WRITES, &["f", "v"]);
    HSTRLEN = one("hstrlen", LOOKS, &["f"]);
    INCRBY = one("incrby", BOTH, &["1"]);
    INFO = one("info", LOOKS, &[]);
    LINDEX = one("lindex", READS, &["0"]);
    LLEN = one("llen", LOOKS, &[]);
    LPOP = one("lpop", BOTH, &[]);
    LPOS = one("lpos", READS, &["x"]);
    LPUSH = one("lpush", WRITES, &["x"]);
    LRANGE = one("lrange", READS, &["0", "0"]);
    LREM = one("lrem", WRITES, &["1", "x"]);
    LSET = one("lset", WRITES, &["0", "x"]);
    LTRIM = one("ltrim", WRITES, &["0", "0"]);
    MEMORY_USAGE = one("memory|usage", LOOKS, &[]);
    PERSIST = one("persist", WRITES, &[]);
    PEXPIRE = one("pexpire", WRITES, &["1000"]);
    PING = one("ping", LOOKS, &[]);
    PTTL = one("pttl", READS, &[]);
    PUBLISH = one("publish", LOOKS, &["x"]);
    PUBSUB_NUMSUB = one("pubsub|numsub", LOOKS, &[]);
    RENAME = all("rename", BOTH, &[]);
    RPOP = one("rpop", BOTH, &[]);
    RPUSH = one("rpush", WRITES, &["x"]);
    SADD = one("sadd", WRITES, &["x"]);
    SCARD = one("scard", LOOKS, &[]);
    SCRIPT_LOAD = one("script|load", LOOKS, &["return 1"]);
    SELECT = one("select", LOOKS, &["0"]);
    SET = one("set", WRITES, &["v"]);
    SMISMEMBER = one("smismember", READS, &["x"]);
    SPUBLISH = one("spublish", LOOKS, &["x"]);
    SREM = one("srem", WRITES, &["x"]);
    STRLEN = one("strlen", LOOKS, &[]);
    SCAN = one("scan", LOOKS, &["0"]);
    SUBSCRIBE = one("subscribe", LOOKS, &[]);
    UNSUBSCRIBE = one("unsubscribe", LOOKS, &[]);
    TIME = one("time", LOOKS, &[]);
    TYPE = one("type", LOOKS, &[]);
    UNLINK = one("unlink", WRITES, &[]);
    WAIT = one("wait", LOOKS, &["0", "1"]);
    XADD = one("xadd", WRITES, &["*", "f", "v"]);
    XDEL = one("xdel", WRITES, &["1-1"]);
    XLEN = one("xlen", LOOKS, &[]);
    XRANGE = one("xrange", READS, &["-", "+"]);
    XREVRANGE = one("xrevrange", READS, &["+", "-"]);
    XTRIM = one("xtrim", WRITES, &["MAXLEN", "1"]);
    ZADD = one("zadd", WRITES, &["1", "x"]);
    ZCARD = one("zcard", LOOKS, &[]);
    ZCOUNT = one("zcount", READS, &["0", "1"]);
    ZRANDMEMBER = one("zrandmember", READS, &["x"]);
    ZMSCORE = one("zmscore", READS, &["x"]);
    ZLEXCOUNT = one("zlexcount", READS, &["-", "+"]);
    ZRANGE = one("zrange", READS, &["0", "0"]);
    ZRANGEBYSCORE = one("zrangebyscore", READS, &["0", "1"]);
    ZRANGESTORE = all("zrangestore", BOTH, &["0", "0"]);
    ZREM = one("zrem", WRITES, &["x"]);
    ZREMRANGEBYRANK = one("zremrangebyrank", WRITES, &["1", "0"]);
    ZSCAN = one("zscan", READS, &["0"]);
    ZSCORE = one("zscore", READS, &["x"]);
}
