//! Topics. Every method returns when all running nodes know the change.

use std::thread;
use std::time::{Duration, Instant};

use super::Kafka;
use super::wire::{Answer, Api, Request, call};
use crate::error::{Error, Result};
use crate::process::LOOK;

const LIST_OFFSETS: Api = Api { key: 2, version: 1, name: "list offsets" };
const METADATA: Api = Api { key: 3, version: 4, name: "describe topics" };
const CREATE_TOPICS: Api = Api { key: 19, version: 2, name: "create topics" };
const DELETE_TOPICS: Api = Api { key: 20, version: 1, name: "delete topics" };
const DESCRIBE_CONFIGS: Api = Api { key: 32, version: 1, name: "describe settings" };
const ALTER_CONFIGS: Api = Api { key: 44, version: 0, name: "alter settings" };
const CREATE_PARTITIONS: Api = Api { key: 37, version: 1, name: "add partitions" };

/// Time-out; elections and starts of nodes take much less.
const PATIENCE: Duration = Duration::from_secs(30);
/// The cluster's own time-out for a request, in ms.
const CLUSTER_MS: i32 = 10_000;

/// Kafka's error codes, as far as the methods branch on them.
pub(super) mod code {
    pub(in crate::kafka) const NONE: i16 = 0;
    pub(in crate::kafka) const UNKNOWN_TOPIC: i16 = 3;
    pub(in crate::kafka) const TOPIC_EXISTS: i16 = 36;
    /// Transient errors of elections: no leader, request timed out, not enough nodes yet, not the controller.
    pub(in crate::kafka) const PASSING: [i16; 7] = [5, 6, 7, 8, 14, 38, 41];
}

/// A topic to create.
#[derive(Debug, Clone)]
pub struct NewTopic<'a> {
    /// The name.
    pub name: &'a str,
    /// Number of partitions.
    pub partitions: i32,
    /// Number of replicas of each partition; 0 means all nodes.
    pub replication: i16,
    /// Settings, for example `("min.insync.replicas", "2")`.
    pub configs: &'a [(&'a str, &'a str)],
}

/// The state of a partition as the cluster sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The number.
    pub id: i32,
    /// The leading node, counted from 1; -1 if there is none.
    pub leader: i32,
    /// The in-sync replicas.
    pub in_sync: Vec<i32>,
}

impl Kafka {
    /// Creates one topic, with replicas on all nodes.
    pub fn create_topic(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Result<()> {
        self.create_topics(&[NewTopic { name, partitions, replication: 0, configs }])
    }

    /// Creates topics.
    pub fn create_topics(&self, topics: &[NewTopic<'_>]) -> Result<()> {
        let everywhere = i16::try_from(self.nodes.len()).expect("three nodes at most");
        let body = Request::default()
            .array(topics, |request, topic| {
                let replication = if topic.replication == 0 { everywhere } else { topic.replication };
                let request = request.string(topic.name).i32(topic.partitions).i16(replication).i32(0);
                request.array(topic.configs, |request, (name, value)| request.string(name).string(value))
            })
            .i32(CLUSTER_MS)
            .bool(false);
        self.change(CREATE_TOPICS, &body, code::TOPIC_EXISTS, |answer| {
            answer.i32()?;
            let results = answer.array(|answer| Ok((answer.string()?, answer.i16()?, answer.string()?)))?;
            Ok(results.into_iter().map(|(name, code, text)| (code, text.or(name))).collect())
        })?;
        for topic in topics {
            let count = usize::try_from(topic.partitions).unwrap_or(0);
            self.until_all_nodes(&format!("topic {} has its leaders", topic.name), |port| {
                Ok(partitions(port, topic.name)?
                    .is_some_and(|found| found.len() == count && found.iter().all(|p| p.leader > 0)))
            })?;
        }
        Ok(())
    }

    /// Deletes a topic with its records.
    pub fn delete_topic(&self, name: &str) -> Result<()> {
        let body = Request::default().array(&[name], |request, name| request.string(name)).i32(CLUSTER_MS);
        self.change(DELETE_TOPICS, &body, code::UNKNOWN_TOPIC, |answer| {
            answer.i32()?;
            answer.array(|answer| Ok((answer.string()?, answer.i16()?))).map(flip)
        })?;
        self.until_all_nodes(&format!("topic {name} is gone"), |port| Ok(partitions(port, name)?.is_none()))
    }

    /// Changes settings of a topic, for example `("max.message.bytes", "1000")`.
    pub fn alter_topic(&self, name: &str, configs: &[(&str, &str)]) -> Result<()> {
        const TOPIC: i8 = 2;
        const SET: i8 = 0;
        let body = Request::default()
            .array(&[name], |request, name| {
                request
                    .i8(TOPIC)
                    .string(name)
                    .array(configs, |request, (name, value)| request.string(name).i8(SET).string(value))
            })
            .bool(false);
        self.change(ALTER_CONFIGS, &body, code::NONE, |answer| {
            answer.i32()?;
            answer
                .array(|answer| Ok((answer.i16()?, answer.string()?, answer.i8()?, answer.string()?)))
                .map(|results| results.into_iter().map(|(code, text, _, name)| (code, text.or(name))).collect())
        })?;
        self.until_all_nodes(&format!("topic {name} has its new settings"), |port| {
            let now = settings(port, name)?;
            Ok(configs.iter().all(|&(key, value)| now.contains(&(key.to_owned(), Some(value.to_owned())))))
        })
    }

    /// Increases the number of partitions of a topic to `total`.
    pub fn add_partitions(&self, name: &str, total: i32) -> Result<()> {
        let body = Request::default()
            .array(&[name], |request, name| request.string(name).i32(total).i32(-1))
            .i32(CLUSTER_MS)
            .bool(false);
        self.change(CREATE_PARTITIONS, &body, code::NONE, |answer| {
            answer.i32()?;
            answer
                .array(|answer| Ok((answer.string()?, answer.i16()?, answer.string()?)))
                .map(|results| results.into_iter().map(|(name, code, text)| (code, text.or(name))).collect())
        })?;
        self.until_all_nodes(&format!("topic {name} has {total} partitions"), |port| {
            Ok(partitions(port, name)?.is_some_and(|found| {
                i32::try_from(found.len()) == Ok(total) && found.iter().all(|partition| partition.leader > 0)
            }))
        })
    }

    /// The partitions of a topic by number, as a running node sees them; `None` if the topic does not exist.
    pub fn partitions(&self, topic: &str) -> Result<Option<Vec<Partition>>> {
        partitions(self.running_ports().first().copied().ok_or_else(none_runs)?, topic)
    }

    /// Number of records that each partition has received since the topic was created, by number.
    pub fn end_offsets(&self, topic: &str) -> Result<Vec<i64>> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.try_end_offsets(topic) {
                Err(_) if Instant::now() < until => thread::sleep(LOOK),
                done => return done,
            }
        }
    }

    fn try_end_offsets(&self, topic: &str) -> Result<Vec<i64>> {
        const CLIENT: i32 = -1;
        const LATEST: i64 = -1;
        let found = self.partitions(topic)?.ok_or_else(|| Error::new(format!("there is no topic {topic}")))?;
        let offset_of = |partition: &Partition| {
            let leader = usize::try_from(partition.leader).ok().and_then(|id| self.ports_of(id));
            let leader = leader.ok_or_else(|| Error::new(format!("{topic} has no leader")))?;
            let body = Request::default().i32(CLIENT).array(&[topic], |request, topic| {
                request.string(topic).array(&[partition.id], |request, &id| request.i32(id).i64(LATEST))
            });
            let mut answer = call(leader.plain, LIST_OFFSETS, &body)?;
            let topics = answer.array(|answer| {
                answer.string()?;
                answer.array(|answer| Ok((answer.i32()?, answer.i16()?, answer.i64()?, answer.i64()?)))
            })?;
            match topics.concat()[..] {
                [(_, code::NONE, _, offset)] => Ok(offset),
                _ => Err(Error::new(format!("list the offsets of {topic}: {topics:?}"))),
            }
        };
        found.iter().map(offset_of).collect()
    }

    /// Sends a request to a running node, and repeats it after transient errors; `codes` reads the codes of the
    /// response.
    ///
    /// A response can be lost, so from the second time on `done_already` counts as success.
    pub(super) fn change(
        &self,
        api: Api,
        body: &Request,
        done_already: i16,
        mut codes: impl FnMut(&mut Answer) -> Result<Vec<(i16, Option<String>)>>,
    ) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        let mut fine = vec![code::NONE];
        loop {
            let port = self.running_ports().first().copied().ok_or_else(none_runs)?;
            let answer = call(port, api, body).and_then(|mut answer| codes(&mut answer));
            let (passing, error) = match answer {
                Err(e) => (true, e),
                Ok(codes) => match codes.into_iter().find(|(code, _)| !fine.contains(code)) {
                    None => return Ok(()),
                    Some((code, text)) => (
                        code::PASSING.contains(&code),
                        Error::new(format!("{}: Kafka's error {code}: {}", api.name, text.unwrap_or_default())),
                    ),
                },
            };
            if !passing || Instant::now() >= until {
                return Err(error);
            }
            fine.push(done_already);
            thread::sleep(LOOK * 10);
        }
    }

    pub(super) fn until_all_nodes(&self, what: &str, holds: impl Fn(u16) -> Result<bool>) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let seen: Result<Vec<bool>> = self.running_ports().into_iter().map(&holds).collect();
            match seen {
                Ok(seen) if seen.iter().all(|&holds| holds) => return Ok(()),
                _ if Instant::now() < until => thread::sleep(LOOK),
                Ok(seen) => return Err(Error::new(format!("wait until {what}: the nodes say {seen:?}"))),
                Err(e) => return Err(e.during(format_args!("wait until {what}"))),
            }
        }
    }
}

fn none_runs() -> Error {
    Error::new("ask Kafka: no node runs")
}

fn flip(results: Vec<(Option<String>, i16)>) -> Vec<(i16, Option<String>)> {
    results.into_iter().map(|(name, code)| (code, name)).collect()
}

fn partitions(port: u16, topic: &str) -> Result<Option<Vec<Partition>>> {
    let body = Request::default().array(&[topic], |request, topic| request.string(topic)).bool(false);
    let mut answer = call(port, METADATA, &body)?;
    answer.i32()?;
    answer.array(|answer| Ok((answer.i32()?, answer.string()?, answer.i32()?, answer.string()?)))?;
    answer.string()?;
    answer.i32()?;
    let topics = answer.array(|answer| {
        let code = answer.i16()?;
        answer.string()?;
        answer.i8()?;
        let partitions = answer.array(|answer| {
            answer.i16()?;
            let id = answer.i32()?;
            let leader = answer.i32()?;
            answer.array(Answer::i32)?;
            Ok(Partition { id, leader, in_sync: answer.array(Answer::i32)? })
        })?;
        Ok((code, partitions))
    })?;
    match topics.into_iter().next() {
        Some((code::UNKNOWN_TOPIC, _)) | None => Ok(None),
        Some((code, mut partitions)) if code == code::NONE || code::PASSING.contains(&code) => {
            partitions.sort_by_key(|partition| partition.id);
            Ok(Some(partitions))
        }
        Some((code, _)) => Err(Error::new(format!("describe topic {topic}: Kafka's error {code}"))),
    }
}

fn settings(port: u16, topic: &str) -> Result<Vec<(String, Option<String>)>> {
    const TOPIC: i8 = 2;
    const ALL: i32 = -1;
    let body =
        Request::default().array(&[topic], |request, topic| request.i8(TOPIC).string(topic).i32(ALL)).bool(false);
    let mut answer = call(port, DESCRIBE_CONFIGS, &body)?;
    answer.i32()?;
    let resources = answer.array(|answer| {
        answer.i16()?;
        answer.string()?;
        answer.i8()?;
        answer.string()?;
        answer.array(|answer| {
            let setting = (answer.string()?.unwrap_or_default(), answer.string()?);
            // Skip: read-only, source, sensitive, synonyms.
            answer.i8()?;
            answer.i8()?;
            answer.i8()?;
            answer.array(|answer| Ok((answer.string()?, answer.string()?, answer.i8()?)))?;
            Ok(setting)
        })
    })?;
    Ok(resources.concat())
}
