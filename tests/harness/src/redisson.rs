//! A writer of Redisson's data that also behaves like its clients, in both layouts of elements.
//!
//! Independent of the library under test. The scripts have the behaviour of Redisson's own, not their text.

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncCommands, Script};

/// The layout of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Up to 3.21.0: a random double, the length, the payload.
    Old,
    /// From 3.21.1: a length byte, eight random bytes, the length, the payload.
    New,
}

impl Layout {
    /// The format for Redis's `struct` library.
    pub fn format(self) -> &'static str {
        match self {
            Layout::Old => "dLc0",
            Layout::New => "Bc0Lc0",
        }
    }

    /// The layout of a recorded vector, by its format.
    pub fn of_format(format: &str) -> Self {
        match format {
            "dLc0" => Layout::Old,
            "Bc0Lc0" => Layout::New,
            other => panic!("a vector with the unknown layout {other}"),
        }
    }

    /// Packs an element with this id.
    pub fn pack(self, id: [u8; 8], payload: &[u8]) -> Vec<u8> {
        let mut member = Vec::with_capacity(17 + payload.len());
        if self == Layout::New {
            member.push(8);
        }
        member.extend_from_slice(&id);
        member.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        member.extend_from_slice(payload);
        member
    }

    /// The id and payload of an element whose length fits this layout exactly.
    pub fn unpack(self, member: &[u8]) -> Option<([u8; 8], &[u8])> {
        let body = match self {
            Layout::Old => member,
            Layout::New => member.strip_prefix(&[8])?,
        };
        let (id, rest) = body.split_first_chunk::<8>()?;
        let (length, payload) = rest.split_first_chunk::<8>()?;
        (u64::from_le_bytes(*length) == payload.len() as u64).then_some((*id, payload))
    }

    /// A random id, as the clients of this layout make it.
    pub fn random_id(self) -> [u8; 8] {
        match self {
            // A random long converted to a double, which limits its last byte.
            #[allow(clippy::cast_precision_loss, reason = "the loss is what Redisson's conversion does")]
            Layout::Old => (fastrand::i64(..) as f64).to_le_bytes(),
            Layout::New => fastrand::u64(..).to_le_bytes(),
        }
    }
}

/// An element in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// The eight bytes that make it unique.
    pub id: [u8; 8],
    /// The application's value, encoded.
    pub payload: Vec<u8>,
    /// The due time, in ms since the epoch.
    pub due_ms: i64,
    /// The member of the sorted set, and entry of the list.
    pub member: Vec<u8>,
}

impl Element {
    /// A new element with a random id.
    pub fn new(layout: Layout, due_ms: i64, payload: impl Into<Vec<u8>>) -> Self {
        let id = layout.random_id();
        let payload = payload.into();
        let member = layout.pack(id, &payload);
        Element { id, payload, due_ms, member }
    }

    /// The id as the daemon writes it: 16 hexadecimal digits.
    pub fn id_text(&self) -> String {
        hex::encode(self.id)
    }
}

/// One queue, as a client of one layout uses it.
#[derive(Debug, Clone)]
pub struct RedissonQueue {
    /// The mapped name, which is the key of the ready list.
    pub name: String,
    /// The layout of this client.
    pub layout: Layout,
    /// The sorted set of elements by due time.
    pub timeouts: String,
    /// The list of elements in the order of the offers.
    pub list: String,
    /// The channel on which a new head is published.
    pub channel: String,
    /// The hash tag at the end of companion keys.
    pub tag: String,
}

impl RedissonQueue {
    /// The queue of that mapped name, in the new layout.
    pub fn new(name: &str) -> Self {
        let tag = if name.contains('{') { name.to_owned() } else { format!("{{{name}}}") };
        RedissonQueue {
            name: name.to_owned(),
            layout: Layout::New,
            timeouts: format!("redisson_delay_queue_timeout:{tag}"),
            list: format!("redisson_delay_queue:{tag}"),
            channel: format!("redisson_delay_queue_channel:{tag}"),
            tag,
        }
    }

    /// The same queue for a client of another layout.
    pub fn with_layout(&self, layout: Layout) -> Self {
        RedissonQueue { layout, ..self.clone() }
    }

    /// The command that counts the elements in flight.
    pub fn count_in_flight(&self) -> redis::Cmd {
        self.about_claims(
            "local n = 0
             each(function(name, till, d, h) n = n + redis.call('ZCARD', d) + redis.call('ZCARD', h) end)
             return n",
        )
    }

    /// Number of elements in flight.
    pub async fn in_flight(&self, redis: &MultiplexedConnection) -> redis::RedisResult<usize> {
        self.count_in_flight().query_async(&mut redis.clone()).await
    }

    /// The claims: the name of each, the end of its lease in ms, and its members.
    pub async fn claims(&self, redis: &MultiplexedConnection) -> Vec<(String, i64, Vec<Vec<u8>>)> {
        let command = self.about_claims(
            "local all = {}
             each(function(name, till, d, h)
               local members = redis.call('ZRANGE', d, 0, -1)
               for _, entry in ipairs(redis.call('ZRANGE', h, 0, -1)) do members[#members + 1] = entry end
               if #members > 0 then all[#all + 1] = {name, tonumber(till), members} end
             end)
             return all",
        );
        command.query_async(&mut redis.clone()).await.expect("read what is in flight")
    }

    /// Puts members into a claim of a process that does not exist, with a lease until `until_ms`.
    pub async fn claim_for(&self, redis: &MultiplexedConnection, until_ms: i64, members: &[(i64, &[u8])]) {
        let name = "1.00000000000000fe.1.0";
        let mut pipe = redis::pipe();
        pipe.atomic().zadd(self.bridge_key("leases"), name, until_ms);
        for (score, member) in members {
            let part = if member.starts_with(b"\xdb") { "h" } else { "d" };
            pipe.zadd(self.bridge_key(&format!("claim:{name}:{part}")), *member, *score);
        }
        pipe.exec_async(&mut redis.clone()).await.expect("write a claim");
    }

    fn about_claims(&self, script: &str) -> redis::Cmd {
        let each = "local function each(look)
             local leases = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
             for i = 1, #leases, 2 do
               local key = 'delaybridge:claim:' .. leases[i]
               look(leases[i], leases[i + 1], key .. ':d:' .. ARGV[1], key .. ':h:' .. ARGV[1])
             end
           end\n";
        let mut command = redis::cmd("EVAL");
        command.arg(format!("{each}{script}")).arg(1).arg(self.bridge_key("leases")).arg(&self.tag);
        command
    }

    /// A key of the daemon: `part` is `leases`, `retry`, `dead`, `ghosts`, `ghosts-turn` or `state`.
    pub fn bridge_key(&self, part: &str) -> String {
        format!("delaybridge:{part}:{}", self.tag)
    }

    /// Offers one element as `RDelayedQueue.offer` does, with a script that publishes a new head.
    pub async fn offer(&self, redis: &mut impl ConnectionLike, due_ms: i64, payload: impl Into<Vec<u8>>) -> Element {
        let element = Element::new(self.layout, due_ms, payload);
        self.offer_script(redis, &element).await;
        element
    }

    /// Offers an existing element; the script packs it again from its parts.
    pub async fn offer_script(&self, redis: &mut impl ConnectionLike, element: &Element) {
        let script = self.script(OFFER);
        let mut call = script.prepare_invoke();
        call.key(&self.timeouts).key(&self.list).key(&self.channel).arg(element.due_ms);
        match self.layout {
            Layout::New => call.arg(&element.id[..]),
            Layout::Old => call.arg(format!("{:?}", f64::from_le_bytes(element.id))),
        };
        let packed: Vec<u8> = call.arg(&element.payload).invoke_async(redis).await.expect("offer an element");
        assert_eq!(packed, element.member, "Redis packed the element in another way than this writer");
    }

    /// Offers many elements quickly: same keys, same bytes, one publish at the end.
    pub async fn offer_bulk(&self, redis: &mut MultiplexedConnection, elements: &[Element]) {
        for pieces in elements.chunks(BULK_COMMAND * BULK_PIPELINE) {
            let mut pipeline = redis::pipe();
            // Atomic, like an offer of Redisson's: no daemon sees an element that is not in the list yet.
            pipeline.atomic();
            for piece in pieces.chunks(BULK_COMMAND) {
                let scored: Vec<(i64, &[u8])> = piece.iter().map(|e| (e.due_ms, &e.member[..])).collect();
                let members: Vec<&[u8]> = piece.iter().map(|e| &e.member[..]).collect();
                pipeline.zadd_multiple(&self.timeouts, &scored).ignore();
                pipeline.rpush(&self.list, members).ignore();
            }
            pipeline.exec_async(redis).await.expect("offer a batch of elements");
        }
        let head: Vec<(Vec<u8>, f64)> =
            redis.zrange_withscores(&self.timeouts, 0, 0).await.expect("read the head of the queue");
        if let Some((_, score)) = head.first() {
            let _: i64 = redis.publish(&self.channel, score).await.expect("publish the head");
        }
    }

    /// Pushes bare payloads on the ready list, as a transfer does.
    pub async fn push_ready(&self, redis: &mut MultiplexedConnection, payloads: &[Vec<u8>]) {
        for pieces in payloads.chunks(BULK_COMMAND * BULK_PIPELINE) {
            let mut pipeline = redis::pipe();
            for piece in pieces.chunks(BULK_COMMAND) {
                pipeline.rpush(&self.name, piece).ignore();
            }
            pipeline.exec_async(redis).await.expect("push to the ready list");
        }
    }

    /// Moves up to 100 elements that are due by `now_ms` to the ready list; returns the due time of the next head.
    pub async fn transfer(&self, redis: &mut impl ConnectionLike, now_ms: i64) -> redis::RedisResult<Option<i64>> {
        let script = self.script(TRANSFER);
        script
            .key(&self.name)
            .key(&self.timeouts)
            .key(&self.list)
            .arg(now_ms)
            .arg(100)
            .invoke_async::<Option<String>>(redis)
            .await
            .map(|score| score.map(|text| text.parse().expect("a due time in whole milliseconds")))
    }

    /// Removes the first element with this payload, as `remove(payload)` does.
    pub async fn remove(&self, redis: &mut impl ConnectionLike, payload: &[u8]) -> redis::RedisResult<bool> {
        self.script(REMOVE).key(&self.list).key(&self.timeouts).arg(payload).invoke_async(redis).await
    }

    /// Whether an element has this payload, as `contains(payload)` tells.
    pub async fn contains(&self, redis: &mut impl ConnectionLike, payload: &[u8]) -> redis::RedisResult<bool> {
        self.script(CONTAINS).key(&self.list).arg(payload).invoke_async(redis).await
    }

    /// Removes the element that was offered first, due or not, as `poll()` does; returns its payload.
    pub async fn poll(&self, redis: &mut impl ConnectionLike) -> redis::RedisResult<Option<Vec<u8>>> {
        self.script(POLL).key(&self.list).key(&self.timeouts).invoke_async(redis).await
    }

    /// One of the scripts below, for this client's layout.
    pub fn script(&self, text: &str) -> Script {
        let id = match self.layout {
            Layout::New => "#ARGV[2], ARGV[2]",
            Layout::Old => "tonumber(ARGV[2])",
        };
        Script::new(&text.replace("FORMAT", self.layout.format()).replace("ID", id))
    }
}

/// Number of members in one command, and of commands in one pipeline, of the bulk writers.
const BULK_COMMAND: usize = 500;
const BULK_PIPELINE: usize = 20;

/// KEYS: sorted set, list, channel. ARGV: due time, id, payload. Returns the packed element.
pub const OFFER: &str = "
local element = struct.pack('FORMAT', ID, #ARGV[3], ARGV[3])
redis.call('ZADD', KEYS[1], ARGV[1], element)
redis.call('RPUSH', KEYS[2], element)
if redis.call('ZRANGE', KEYS[1], 0, 0)[1] == element then
  redis.call('PUBLISH', KEYS[3], ARGV[1])
end
return element
";

/// KEYS: ready list, sorted set, list. ARGV: the client's time, the maximum number to move. Returns the score of the
/// next head.
///
/// Like the original, it leaves everything half done when it meets an element of the other layout.
pub const TRANSFER: &str = "
local due = redis.call('ZRANGEBYSCORE', KEYS[2], 0, ARGV[1], 'LIMIT', 0, ARGV[2])
for _, element in ipairs(due) do
  local _, payload = struct.unpack('FORMAT', element)
  redis.call('RPUSH', KEYS[1], payload)
  redis.call('LREM', KEYS[3], 1, element)
end
if #due > 0 then
  redis.call('ZREM', KEYS[2], unpack(due))
end
return redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
";

/// KEYS: list, sorted set. ARGV: payload. Returns 1 if an element was removed.
pub const REMOVE: &str = "
for index = 0, redis.call('LLEN', KEYS[1]) - 1 do
  local element = redis.call('LINDEX', KEYS[1], index)
  local _, payload = struct.unpack('FORMAT', element)
  if payload == ARGV[1] then
    redis.call('ZREM', KEYS[2], element)
    redis.call('LREM', KEYS[1], 1, element)
    return 1
  end
end
return 0
";

/// KEYS: list. ARGV: payload. Returns 1 if an element has it.
pub const CONTAINS: &str = "
for index = 0, redis.call('LLEN', KEYS[1]) - 1 do
  local _, payload = struct.unpack('FORMAT', redis.call('LINDEX', KEYS[1], index))
  if payload == ARGV[1] then
    return 1
  end
end
return 0
";

/// KEYS: list, sorted set. Returns the payload at the head of the list.
pub const POLL: &str = "
local element = redis.call('LPOP', KEYS[1])
if not element then
  return false
end
redis.call('ZREM', KEYS[2], element)
local _, payload = struct.unpack('FORMAT', element)
return payload
";

/// Redis's clock, in ms since the epoch.
pub async fn redis_now_ms(redis: &mut impl ConnectionLike) -> i64 {
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(redis).await.expect("ask Redis for the time");
    seconds * 1000 + micros / 1000
}
