//! The way into a pool: a job as the program of a preset would have written it. Pure, but for the commands at the end.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{JobPool, JobPoolSpec};
use delaybridge_ledger::claims::BodyAt;
use delaybridge_ledger::{StoreError, text};
use delaybridge_link::{Conn, LinkError, Score};

/// The time after its due time for which HDT3213's program keeps a job, unless it is configured otherwise.
const KEPT_MS: i64 = 3_600_000;

/// A program whose jobs can be written: the name of its preset, and what its keys are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The preset.
    pub preset: &'static str,
    /// The `name` of the preset.
    pub name: String,
}

/// A job on its way into a pool.
#[derive(Debug, Clone, Copy)]
pub struct Leaving<'a> {
    /// The id.
    pub id: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The body.
    pub body: &'a Bytes,
    /// The time at which it was added, in ms.
    pub added_ms: i64,
    /// The due time, in ms.
    pub due_ms: i64,
    /// The time to run, in ms.
    pub ttr_ms: u32,
    /// Attempts after the first.
    pub retries: u32,
}

/// The bytes that are written for a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    at: BodyAt,
    record: Bytes,
    /// Other fields of the job's own hash.
    more: Vec<(&'static str, Bytes)>,
    /// A field of the hash beside the jobs, and its value.
    beside: Option<(Bytes, Bytes)>,
    /// The time for which the record is kept, in ms.
    keeps_ms: Option<i64>,
    bucket: Bytes,
    member: Bytes,
    score: Score,
}

impl Written {
    /// Returns the record.
    pub fn record(&self) -> &Bytes {
        &self.record
    }

    /// Returns the bucket.
    pub fn bucket(&self) -> &Bytes {
        &self.bucket
    }

    /// Returns the score there.
    pub fn score(&self) -> Score {
        self.score
    }
}

impl JobPoolSpec {
    /// Returns why no job can be written into this pool; `None` if it works.
    pub fn why_not_written(&self) -> Option<&'static str> {
        match &self.program {
            Some(program) if program.preset == "youzan" => {
                Some("its members and jobs are objects of Java classes that only its program has")
            }
            Some(_) => None,
            None => {
                Some("only jobs of a preset can be written, with `id`, `record` and `names` as the preset has them")
            }
        }
    }
}

/// Converts to seconds, rounded up: never before its time.
fn seconds(ms: i64) -> i64 {
    ms.div_euclid(1_000) + i64::from(ms % 1_000 > 0)
}

fn utf8(body: &Bytes) -> Result<&str, &'static str> {
    std::str::from_utf8(body).map_err(|_| "its body is no text, and the pool's records are")
}

impl JobPool {
    /// Makes what the program of this pool would have written.
    ///
    /// # Errors
    ///
    /// In words, when it could not have written such a job.
    pub fn write(&self, job: &Leaving<'_>) -> Result<Written, &'static str> {
        let (Some(program), None) = (&self.spec.program, self.spec.why_not_written()) else {
            return Err(self.spec.why_not_written().unwrap_or_default());
        };
        let Leaving { id, topic, body, added_ms, due_ms, ttr_ms, retries } = *job;
        let ttr_s = seconds(ttr_ms.into()).max(1);
        let mut member = id.to_owned();
        let mut more = Vec::new();
        let mut beside = None;
        let mut keeps_ms = None;
        let record: Bytes = match program.preset {
            "ouqiang" => msgpack(topic, id, seconds(due_ms), ttr_s, utf8(body)?).into(),
            "ice" => {
                member = format!("{id}#0");
                let body = match serde_json::from_slice::<Value>(body) {
                    Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
                    _ => utf8(body)?.into(),
                };
                let delay = (due_ms - added_ms).max(0);
                let status = "DELAY";
                json!({ "id": id, "topic": topic, "delay": delay, "ttr": ttr_ms, "retryCount": retries, "body": body, "status": status })
                    .to_string()
                    .into()
            }
            "yii2" => [format!("{ttr_s};").as_bytes(), body].concat().into(),
            "hdt3213" => {
                beside = Some((Bytes::from(id.to_owned()), text(retries)));
                keeps_ms = Some(KEPT_MS);
                body.clone()
            }
            "youzan_json" => {
                let id: i64 = id.parse().map_err(|_| "its id is no number, and those of the pool are")?;
                member = json!({ "jodId": id, "delayDate": due_ms, "topic": topic }).to_string();
                let delay = (due_ms - added_ms).max(0);
                let body = utf8(body)?;
                json!({ "id": id, "topic": topic, "delayTime": delay, "ttrTime": ttr_ms, "message": body, "retryCount": retries, "status": "DELAY" })
                    .to_string()
                    .into()
            }
            "bullmq" => {
                let delay = (due_ms - added_ms).max(0);
                let attempts = retries.saturating_add(1);
                more = vec![
                    ("name", text(topic)),
                    ("opts", text(json!({ "attempts": attempts, "delay": delay, "jobId": id }))),
                    ("timestamp", text(added_ms)),
                    ("delay", text(delay)),
                    ("priority", text(0)),
                ];
                // A job's data is JSON.
                match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
                    Ok(_) => body.clone(),
                    Err(_) => json!(utf8(body)?).to_string().into(),
                }
            }
            "asynq" => {
                more = vec![("state", Bytes::from_static(b"scheduled"))];
                let texts = [(1, topic.as_bytes()), (2, &body[..]), (3, id.as_bytes()), (4, program.name.as_bytes())];
                protobuf(&texts, &[(5, retries.into()), (8, ttr_s.unsigned_abs())]).into()
            }
            _ => return Err("no job of this preset can be written"),
        };
        let member = Bytes::from(member);
        let layout = &self.spec.layout;
        let read = layout.id(&member).ok().filter(|read| read.bytes == id.as_bytes());
        let at = read.and_then(|read| layout.place(&read)).ok_or("its id cannot be one of the pool's")?;
        let bucket = xxhash_rust::xxh3::xxh3_64(id.as_bytes()) % self.buckets.len().max(1) as u64;
        let bucket = self.buckets.get(bucket as usize).cloned().unwrap_or_default();
        let score = self.spec.score.at(due_ms);
        Ok(Written { at, record, more, beside, keeps_ms, bucket, member, score })
    }

    /// Writes a job, its record first: an id without a job is one that was deleted. `false` if the pool has another job with
    /// its id. Sent twice, it changes nothing.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn put(&self, conn: &Conn, job: &Written, now_ms: i64) -> Result<bool, StoreError> {
        let key = job.at.key();
        let field = job.at.field();
        let mut write = redis::cmd(if field.is_some() { "HSETNX" } else { "SET" });
        let mut read = redis::cmd(if field.is_some() { "HGET" } else { "GET" });
        write.arg(&key[..]);
        read.arg(&key[..]);
        if let Some(field) = field {
            write.arg(&field[..]);
            read.arg(&field[..]);
        }
        write.arg(&job.record[..]);
        if field.is_none() {
            write.arg("NX");
            if let Some(keeps_ms) = job.keeps_ms {
                let due_ms = self.spec.score.due_ms(job.score);
                write.arg("PXAT").arg(due_ms.max(now_ms).saturating_add(keeps_ms));
            }
        }
        let there = async {
            conn.query::<redis::Value>(&write).await?;
            conn.query::<Option<Vec<u8>>>(&read).await
        };
        match there.await {
            Ok(Some(there)) if there == job.record => {}
            Ok(_) | Err(LinkError::Server { code: "WRONGTYPE", .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        if !job.more.is_empty() {
            let mut more = redis::cmd("HSET");
            more.arg(&key[..]);
            for (name, value) in &job.more {
                more.arg(*name).arg(&value[..]);
            }
            conn.query::<i64>(&more).await?;
        }
        if let (Some(hash), Some((field, value))) = (&self.beside, &job.beside) {
            conn.query::<i64>(redis::cmd("HSETNX").arg(&hash[..]).arg(&field[..]).arg(&value[..])).await?;
        }
        let mut schedule = redis::cmd("ZADD");
        schedule.arg(&job.bucket[..]).arg("NX").arg(job.score).arg(&job.member[..]);
        conn.query::<i64>(&schedule).await?;
        Ok(true)
    }
}

/// Returns the map of ouqiang's program.
fn msgpack(topic: &str, id: &str, due_s: i64, ttr_s: i64, body: &str) -> Vec<u8> {
    let mut out = vec![0x85];
    let string = |out: &mut Vec<u8>, text: &str| {
        let length = (text.len() as u32).to_be_bytes();
        match text.len() {
            0..=31 => out.push(0xa0 | length[3]),
            32..=0xff => out.extend([0xd9, length[3]]),
            0x100..=0xffff => out.extend([0xda, length[2], length[3]]),
            _ => out.extend([&[0xdb][..], &length].concat()),
        }
        out.extend_from_slice(text.as_bytes());
    };
    let number = |out: &mut Vec<u8>, number: i64| match u32::try_from(number.max(0)) {
        Ok(small @ 0..=0x7f) => out.push(small as u8),
        Ok(number) => out.extend([&[0xce][..], &number.to_be_bytes()].concat()),
        Err(_) => out.extend([&[0xcf][..], &number.to_be_bytes()].concat()),
    };
    for (name, value) in [("1", topic), ("2", id)] {
        string(&mut out, name);
        string(&mut out, value);
    }
    for (name, value) in [("3", due_s), ("4", ttr_s)] {
        string(&mut out, name);
        number(&mut out, value);
    }
    string(&mut out, "5");
    string(&mut out, body);
    out
}

/// Returns a message with these texts and numbers.
fn protobuf(texts: &[(u64, &[u8])], numbers: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    let varint = |out: &mut Vec<u8>, mut number: u64| {
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    };
    for (field, bytes) in texts {
        varint(&mut out, field << 3 | 2);
        varint(&mut out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
    for (field, number) in numbers {
        varint(&mut out, field << 3);
        varint(&mut out, *number);
    }
    out
}
