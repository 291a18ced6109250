//! A producer that does one thing wrong: the one that the environment variable `FAULT` names. Without it, it is right.

#![expect(clippy::disallowed_methods, reason = "a producer's delay is counted from its own clock, as in Redisson")]

use std::io::{BufRead, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Connection, Script};
use serde_json::{Value, json};

/// Whether this is the fault that was asked for.
fn fault(name: &str) -> bool {
    std::env::var("FAULT").is_ok_and(|asked| asked == name)
}

struct Queue {
    conn: Connection,
    tag: String,
    json: bool,
    redis_clock: bool,
    offset: i64,
}

/// All that offers need; faults are other texts in their places.
const OFFER: &str = "
local function wrong(key, want)
  local kind = redis.call('TYPE', key).ok
  return kind ~= want and kind ~= 'none'
end
if wrong(KEYS[1], 'zset') or wrong(KEYS[2], 'list') then return redis.error_reply('WRONGTYPE one of the keys') end
local function offer(member, due, asks, mark)
  local standing = redis.call('ZSCORE', KEYS[1], member)
  if standing then return standing end
  if asks ~= '' then
    local time = redis.call('TIME')
    due = due + time[1] * 1000 + math.floor(time[2] / 1000)
  end
  due = string.format('%.0f', due)
  if mark and not redis.call('SET', mark, due, 'NX', 'PX', 600000) then return redis.call('GET', mark) end
  redis.call('ZADD', KEYS[1], due, member)
  redis.call('RPUSH', KEYS[2], member)
  if redis.call('ZRANK', KEYS[1], member) == 0 then redis.call('PUBLISH', ARGV[1], due) end
  return due
end
local dues = {}
for i = 2, #ARGV, 4 do
  dues[#dues + 1] = offer(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], KEYS[tonumber(ARGV[i + 3])])
end
return dues
";

const CANCEL: &str = "
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[1], ARGV[1])) do
  if string.sub(member, 1, #ARGV[2]) == ARGV[2] then
    redis.call('ZREM', KEYS[1], member)
    redis.call('LREM', KEYS[2], 1, member)
    return 1
  end
end
return 0
";

const RESCHEDULE: &str = "
for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], ARGV[2], ARGV[2])) do
  if string.sub(member, 1, #ARGV[3]) == ARGV[3] then
    redis.call('ZADD', KEYS[1], 'XX', ARGV[4], member)
    if redis.call('ZRANK', KEYS[1], member) == 0 then redis.call('PUBLISH', ARGV[1], ARGV[4]) end
    return 1
  end
end
return 0
";

/// A script with the fault in it: the name of the fault, a text of the script, and what is there instead.
fn script(text: &str, faults: &[(&str, &str, &str)]) -> Script {
    let mut text = text.to_owned();
    for (_, from, to) in faults.iter().filter(|(name, ..)| fault(name)) {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    Script::new(&text)
}

fn main() -> std::io::Result<()> {
    if fault("ends") {
        std::process::exit(3);
    }
    let mut queue = None;
    let mut asked = 0;
    for line in std::io::stdin().lock().split(b'\n') {
        let operation: Value = serde_json::from_slice(&line?)?;
        asked += 1;
        if fault("hangs") {
            std::thread::sleep(Duration::from_secs(3_600));
        }
        if fault("ends-later") && asked == 5 {
            std::process::exit(3);
        }
        if fault("chats") {
            println!("connecting to Redis ...");
        }
        let mut answer = match run(&mut queue, &operation) {
            Ok(answer) => answer,
            Err(error) => json!({"ok": false, "error": error}),
        };
        answer["n"] = if fault("other-number") { 7_000.into() } else { operation["n"].clone() };
        if answer.get("ok").is_none() {
            answer["ok"] = true.into();
        }
        let mut out = std::io::stdout().lock();
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    if fault("does-not-end") {
        std::thread::sleep(Duration::from_secs(3_600));
    }
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn run(open: &mut Option<Queue>, operation: &Value) -> Result<Value, String> {
    let op = operation["op"].as_str().unwrap_or_default();
    if op == "open" {
        *open = Some(Queue::open(operation)?);
        let lacks = std::env::var("LACKS").unwrap_or_default();
        let features = ["batch", "cancel", "cancel_value", "reschedule", "ids", "clock_redis", "clock_offset"];
        let features: Vec<_> =
            features.into_iter().filter(|name| !lacks.split(',').any(|lacks| lacks == *name)).collect();
        return Ok(json!({"name": "one that lies", "features": features, "layout": "current"}));
    }
    let queue = open.as_mut().ok_or("no queue is open")?;
    match op {
        "offer" => Ok(json!({"offer": queue.offer(&[operation])?[0]})),
        "offer_batch" => {
            let mut offers: Vec<_> = operation["offers"].as_array().into_iter().flatten().collect();
            if fault("batch-reversed") {
                offers.reverse();
            }
            let mut handles = Vec::new();
            let one_by_one = fault("batch-in-parts");
            for part in offers.chunks(if one_by_one { 1 } else { offers.len().max(1) }) {
                handles.extend(queue.offer(part)?);
            }
            Ok(json!({"offers": handles}))
        }
        "cancel" if operation.get("offer").is_some() => Ok(json!({"removed": queue.cancel(&operation["offer"])?})),
        "cancel" => Ok(json!({"removed": queue.cancel_value(&operation["value"])?})),
        "reschedule" => queue.reschedule(operation),
        "close" => {
            *open = None;
            Ok(json!({}))
        }
        _ => Ok(json!({"ok": false, "unsupported": true})),
    }
}

impl Queue {
    fn open(operation: &Value) -> Result<Queue, String> {
        let name = operation["queue"].as_str().unwrap_or_default().to_owned();
        let braces = (fault("always-braces") || !name.contains('{')) && !fault("no-braces");
        let tag = if braces { format!("{{{name}}}") } else { name };
        let client = redis::Client::open(operation["redis"].as_str().unwrap_or_default()).map_err(text)?;
        Ok(Queue {
            conn: client.get_connection().map_err(text)?,
            tag,
            json: operation["codec"] == "json",
            redis_clock: operation["clock"] == "redis",
            offset: operation["clock_offset_ms"].as_i64().unwrap_or(0),
        })
    }

    fn key(&self, prefix: &str) -> String {
        format!("{}{prefix}:{}", if fault("prefix") { "app:" } else { "" }, self.tag)
    }

    fn channel(&self) -> String {
        self.key("redisson_delay_queue_channel")
    }

    fn payload(&self, value: &Value) -> Vec<u8> {
        let mut payload = match value {
            Value::String(text) if !self.json => text.clone().into_bytes(),
            other if fault("json-in-string") => Value::String(other.to_string()).to_string().into_bytes(),
            other => other.to_string().into_bytes(),
        };
        if fault("quotes") && !self.json {
            payload = value.to_string().into_bytes();
        }
        if fault("cut-at-zero") {
            payload.truncate(payload.iter().position(|&byte| byte == 0).unwrap_or(payload.len()));
        }
        if fault("cut-at-1mb") {
            payload.truncate(1 << 20);
        }
        if fault("latin-1") {
            payload = String::from_utf8_lossy(&payload).chars().map(|letter| letter as u8).collect();
        }
        payload
    }

    fn element(id: [u8; 8], payload: &[u8]) -> Vec<u8> {
        let mut element = vec![8];
        if fault("old-layout") {
            element.clear();
        }
        element.extend(id);
        let length = payload.len() as u64;
        element.extend(if fault("big-endian") { length.to_be_bytes() } else { length.to_le_bytes() });
        element.extend(payload);
        element
    }

    /// An element, with its due time or delay.
    fn pack(&self, offer: &Value) -> Result<([u8; 8], Vec<u8>, i64), String> {
        let id = match offer.get("id").and_then(Value::as_str).filter(|_| !fault("ids-ignored")) {
            Some(id) if fault("ids-reversed") => u64::from_str_radix(id, 16).map_err(text)?.to_le_bytes(),
            Some(id) => u64::from_str_radix(id, 16).map_err(text)?.to_be_bytes(),
            None if fault("fixed-id") => *b"RANDOM8B",
            None if fault("counted-id") => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_nanos()).unwrap_or(0).to_be_bytes()
            }
            None => fastrand::u64(..).to_be_bytes(),
        };
        let payload = self.payload(&offer["value"]);
        if payload.is_empty() && id[7] == 1 && matches!(id[6], 0x43 | 0xc3) && !fault("any-id") {
            return Err("this ID cannot be that of an empty payload".to_owned());
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since.as_millis()).unwrap_or(0) + if fault("true-clock") { 0 } else { self.offset };
        let due = match (offer["delay_ms"].as_i64(), offer["due_ms"].as_i64()) {
            (Some(delay), _) if delay < 0 && !fault("negative") => return Err("a negative delay".to_owned()),
            (Some(delay), _) if self.asks_redis(offer) => delay,
            (Some(delay), _) => now + delay,
            (None, at) if fault("never-past") => at.unwrap_or(0).max(now),
            (None, at) => at.unwrap_or(0),
        };
        Ok((id, Queue::element(id, &payload), if fault("seconds") { due / 1_000 } else { due }))
    }

    fn asks_redis(&self, offer: &Value) -> bool {
        self.redis_clock && !fault("own-clock") && offer.get("delay_ms").is_some()
    }

    fn offer(&mut self, offers: &[&Value]) -> Result<Vec<String>, String> {
        let script = script(
            OFFER,
            &[
                ("no-list", "redis.call('RPUSH', KEYS[2], member)", ""),
                ("no-set", "redis.call('ZADD', KEYS[1], due, member)", ""),
                ("other-bytes-in-list", "'RPUSH', KEYS[2], member", "'RPUSH', KEYS[2], string.sub(member, 18)"),
                ("at-the-front", "RPUSH", "LPUSH"),
                ("no-publish", "redis.call('PUBLISH', ARGV[1], due)", ""),
                ("always-publish", "redis.call('ZRANK', KEYS[1], member) == 0", "true"),
                ("publishes-exponent", "'PUBLISH', ARGV[1], due", "'PUBLISH', ARGV[1], string.format('%e', due)"),
                ("publishes-payload", "'PUBLISH', ARGV[1], due", "'PUBLISH', ARGV[1], member"),
                ("float-score", "'%.0f', due", "'%.1f', due + 0.5"),
                ("rounded-score", "'%.0f', due", "'%.0f', math.floor(due / 1000) * 1000"),
                ("not-idempotent", "if standing then return standing end", ""),
                (
                    "announces-again",
                    "if standing then return standing end",
                    "if standing then redis.call('PUBLISH', ARGV[1], due) return standing end",
                ),
                (
                    "moves-again",
                    "if standing then return standing end",
                    "if standing then redis.call('ZADD', KEYS[1], due + 60000, member) return standing end",
                ),
                ("mark-for-ever", ", 'PX', 600000", ""),
                ("mark-for-a-day", "600000", "86400000"),
                ("mark-says-1", "mark, due, 'NX'", "mark, 1, 'NX'"),
                ("no-types", "if wrong(KEYS[1], 'zset') or wrong(KEYS[2], 'list')", "if false"),
                ("another-key", "return dues", "redis.call('SET', 'seen:' .. KEYS[1], 1) return dues"),
                ("expires", "return dues", "redis.call('EXPIRE', KEYS[1], 99999) return dues"),
            ],
        );
        let set = self.key("redisson_delay_queue_timeout");
        let list = self.key("redisson_delay_queue");
        let mut keys = vec![set.clone(), list.clone()];
        let mut args = Vec::new();
        let mut ids = Vec::new();
        for offer in offers {
            let (id, element, due) = self.pack(offer)?;
            ids.push(id);
            if fault("two-calls") {
                let _: i64 = self.run(redis::cmd("ZADD").arg(&set).arg(due).arg(&element))?;
                let _: i64 = self.run(redis::cmd("RPUSH").arg(&list).arg(&element))?;
                if self.run::<i64>(redis::cmd("ZRANK").arg(&set).arg(&element))? == 0 {
                    let _: i64 = self.run(redis::cmd("PUBLISH").arg(self.channel()).arg(due))?;
                }
                continue;
            }
            let mut mark = 0;
            if let Some(hex) = offer.get("id").and_then(Value::as_str).filter(|_| !fault("no-mark")) {
                keys.push(format!("{}:{hex}", self.key("delaybridge:offer")));
                mark = keys.len();
            }
            let asks = if self.asks_redis(offer) { "redis" } else { "" };
            args.extend([element, due.to_string().into_bytes(), asks.into(), mark.to_string().into_bytes()]);
        }
        let handle = |id: &[u8; 8], due: &str| format!("{:016x}-{due}", u64::from_be_bytes(*id));
        if fault("two-calls") {
            return Ok(ids.iter().map(|id| handle(id, "0")).collect());
        }
        let mut call = script.prepare_invoke();
        call.key(keys).arg(self.channel()).arg(args);
        let dues: Vec<String> = call.invoke(&mut self.conn).map_err(text)?;
        Ok(ids.iter().zip(&dues).map(|(id, due)| handle(id, due)).collect())
    }

    fn run<T: redis::FromRedisValue>(&mut self, cmd: &redis::Cmd) -> Result<T, String> {
        cmd.query(&mut self.conn).map_err(text)
    }

    fn prefix(handle: &Value) -> Result<(Vec<u8>, String), String> {
        let (id, due) = handle.as_str().unwrap_or_default().split_once('-').ok_or("no handle")?;
        let id = u64::from_str_radix(id, 16).map_err(text)?.to_be_bytes();
        let mut prefix = Queue::element(id, &[]);
        prefix.truncate(9);
        Ok((prefix, due.to_owned()))
    }

    fn cancel(&mut self, handle: &Value) -> Result<i64, String> {
        let (prefix, due) = Queue::prefix(handle)?;
        let script = script(
            CANCEL,
            &[
                ("cancels-set-alone", "redis.call('LREM', KEYS[2], 1, member)", ""),
                ("cancel-says-1", "return 0", "return 1"),
                ("cancels-any", "string.sub(member, 1, #ARGV[2]) == ARGV[2]", "true"),
                ("removes-ghosts", "return 0", "redis.call('LPOP', KEYS[2]) return 0"),
            ],
        );
        let mut call = script.prepare_invoke();
        call.key(self.key("redisson_delay_queue_timeout")).key(self.key("redisson_delay_queue"));
        call.arg(due).arg(prefix).invoke(&mut self.conn).map_err(text)
    }

    fn cancel_value(&mut self, value: &Value) -> Result<usize, String> {
        let payload = self.payload(value);
        let set = self.key("redisson_delay_queue_timeout");
        let list = self.key("redisson_delay_queue");
        let all: Vec<Vec<u8>> = redis::cmd("ZRANGE").arg(&set).arg(0).arg(-1).query(&mut self.conn).map_err(text)?;
        let holds = |element: &Vec<u8>| {
            if fault("cancels-junk") && *element == payload {
                return true;
            }
            // Without a look at the first byte, it is the end of an element of either layout.
            let header = if element.first() == Some(&8) { 17 } else { 16 };
            let found = element.get(header..).filter(|found| element[header - 8..header] == found.len().to_le_bytes());
            match found {
                Some(found) if fault("cancels-prefixes") => payload.starts_with(found),
                Some(found) => *found == payload && !(header == 16 && fault("cancels-current-alone")),
                None => false,
            }
        };
        let mut found: Vec<_> = all.into_iter().filter(holds).collect();
        if fault("cancels-none") {
            found.clear();
        }
        for element in &found {
            let _: i64 = redis::cmd("ZREM").arg(&set).arg(element).query(&mut self.conn).map_err(text)?;
            let _: i64 = redis::cmd("LREM").arg(&list).arg(1).arg(element).query(&mut self.conn).map_err(text)?;
        }
        Ok(found.len())
    }

    fn reschedule(&mut self, operation: &Value) -> Result<Value, String> {
        let (prefix, due) = Queue::prefix(&operation["offer"])?;
        let to = operation["due_ms"].as_i64().unwrap_or(0);
        if to < 0 && !fault("moves-below-0") {
            return Err("a negative due time".to_owned());
        }
        let script = script(
            RESCHEDULE,
            &[
                ("moves-silently", "redis.call('PUBLISH', ARGV[1], ARGV[4])", ""),
                ("moves-loudly", "redis.call('ZRANK', KEYS[1], member) == 0", "true"),
                ("moves-any", "string.sub(member, 1, #ARGV[3]) == ARGV[3]", "true"),
                ("moved-says-yes", "return 0", "return 1"),
                ("moves-list", "return 1", "redis.call('RPUSH', KEYS[2], member) return 1"),
                ("brings-back", "return 0", "redis.call('ZADD', KEYS[1], ARGV[4], ARGV[3]) return 0"),
            ],
        );
        let mut call = script.prepare_invoke();
        call.key(self.key("redisson_delay_queue_timeout")).key(self.key("redisson_delay_queue"));
        call.arg(self.channel()).arg(due).arg(prefix).arg(to);
        let moved: i64 = call.invoke(&mut self.conn).map_err(text)?;
        let id = operation["offer"].as_str().unwrap_or_default().split('-').next().unwrap_or_default();
        let due = if fault("old-handle") {
            operation["offer"].as_str().unwrap_or_default().to_owned()
        } else {
            format!("{id}-{to}")
        };
        Ok(json!({"moved": moved == 1, "offer": due}))
    }
}
