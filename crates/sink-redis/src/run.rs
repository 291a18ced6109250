//! Runs: elements for lists and streams, of which none arrives before one that came before it.
//!
//! Each command pushes a part of a run as one: a push to a list takes all or none, and the script of a stream stops at the first
//! entry that is refused. The next part is sent when this one is confirmed. A command that runs late, on a connection that was
//! given up, brings what it has in its order too.

use std::ops::Range;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

use crate::worker::{MAX_BYTES, MAX_COMMANDS, connection};
use crate::{command, errors};
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure, Outcome};
use delaybridge_link::{Conn, KeyPrefix, LargeArgs, LinkError, Redis, Script};
use delaybridge_sink::{Answers, Outbound, behind};

/// Returns the script that adds entries to a stream.
pub(super) fn script() -> Script {
    Script::new("add_entries", include_str!("scripts/entries.lua"))
}

pub(super) struct RunSender<'a> {
    pub(super) redis: &'a Redis,
    /// The script of [`script`].
    pub(super) entries: &'a Script,
    pub(super) timeout: Duration,
}

impl RunSender<'_> {
    /// Delivers a run, part by part, until an element fails.
    pub(super) async fn deliver(&self, run: &[Outbound], answers: &Answers) {
        let deadline = Instant::now().after(self.timeout);
        let mut sent = 0;
        let mut failed = false;
        while sent < run.len() && !failed {
            let part = part(run, sent);
            let outcomes = self.send(&run[part.clone()], deadline).await;
            failed = outcomes.len() < part.len();
            for (place, outcome) in part.clone().zip(outcomes) {
                failed |= outcome.is_err();
                answers.put(place, outcome);
            }
            sent = part.end;
        }
        answers.open().into_iter().for_each(|place| answers.put(place, Err(behind(&run[place].destination))));
    }

    /// Sends elements for one destination. Returns the answers of those that were sent, or of all.
    async fn send(&self, part: &[Outbound], deadline: Instant) -> Vec<Outcome> {
        let Some(first) = part.first() else { return Vec::new() };
        let all = |failure: Failure| part.iter().map(|_| Err(failure.clone())).collect();
        let what = command::attempt(&first.destination);
        let left = || deadline.since(Instant::now());
        let place = self.redis.at(command::key(&first.destination));
        let conn = match tokio::time::timeout(left(), place.first()).await {
            Ok(conn) => connection(self.redis, conn),
            Err(_) => {
                let text = format!("{what}: not connected within {:?}", self.timeout);
                Err(Failure::new(Class::Transient, Failure::NOT_SENT, text))
            }
        };
        let sent = async { self.push(&conn?, part, &what).await };
        match tokio::time::timeout(left(), sent).await {
            Ok(Ok(outcomes)) => outcomes,
            Ok(Err(failure)) => all(failure),
            Err(_) => {
                let text = format!("{what}: no confirmation within {:?}", self.timeout);
                all(Failure::new(Class::Ambiguous, "timeout", text))
            }
        }
    }

    fn prefix(&self) -> &KeyPrefix {
        &self.redis.space().prefix
    }

    async fn push(&self, conn: &Conn, part: &[Outbound], what: &str) -> Result<Vec<Outcome>, Failure> {
        let [first, others @ ..] = part else { return Ok(Vec::new()) };
        let destination = &first.destination;
        let is_stream = !command::is_of_many(first);
        if is_stream && !others.is_empty() {
            return self.add(conn, part, what).await;
        }
        let mut large = LargeArgs::default();
        let mut push = command::command(first, self.prefix(), &mut large)?;
        others.iter().for_each(|message| large.add(&mut push, &message.body));
        let answer = once(conn, push, part).await?.map_err(|error| errors::classify(what, &error))?;
        Ok(part.iter().map(|_| command::confirmed(destination, &answer, part.len())).collect())
    }

    /// Adds entries to a stream by the script.
    async fn add(&self, conn: &Conn, part: &[Outbound], what: &str) -> Result<Vec<Outcome>, Failure> {
        let mut large = LargeArgs::default();
        let command = command::entries(self.entries.sha1(), part, &mut large)?;
        let mut answer = once(conn, command.clone(), part).await?;
        if matches!(&answer, Err(LinkError::Server { code: "NOSCRIPT", .. })) {
            conn.load(self.entries).await.map_err(|error| errors::classify(what, &error))?;
            answer = once(conn, command, part).await?;
        }
        let ids = match answer {
            Ok(Value::Array(ids)) => ids,
            Ok(_) => return Err(command::unconfirmed(&part[0].destination)),
            // The user may have been made for one entry at a time.
            Err(LinkError::Server { code: "NOPERM", .. }) => return self.add_each(conn, part, what).await,
            Err(error) => return Err(errors::classify(what, &error)),
        };
        let outcome = |(message, id): (&Outbound, Value)| match id {
            Value::ServerError(error) => Err(errors::classify(what, &LinkError::server(&error))),
            id => command::confirmed(&message.destination, &id, 1),
        };
        Ok(part.iter().zip(ids).map(outcome).collect())
    }

    /// Adds entries to a stream one by one, until one is refused.
    async fn add_each(&self, conn: &Conn, part: &[Outbound], what: &str) -> Result<Vec<Outcome>, Failure> {
        let mut outcomes = Vec::new();
        for message in part {
            let answered = async {
                let mut large = LargeArgs::default();
                let answer = once(conn, command::command(message, self.prefix(), &mut large)?, part).await?;
                let id = answer.map_err(|error| errors::classify(what, &error))?;
                command::confirmed(&message.destination, &id, 1)
            };
            outcomes.push(answered.await);
            if outcomes.last().is_some_and(Result::is_err) {
                break;
            }
        }
        Ok(outcomes)
    }
}

/// Sends one command, unless the lease of its elements may be over.
async fn once(conn: &Conn, command: Cmd, part: &[Outbound]) -> Result<Result<Value, LinkError>, Failure> {
    let send_before = part.iter().map(|message| message.send_before).min().unwrap_or_else(Instant::now);
    if Instant::now() >= send_before {
        return Err(Failure::stale());
    }
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.add_command(command);
    let answers = conn.pipeline_before(send_before, &pipeline).await;
    Ok(answers.and_then(|answers| {
        answers.into_iter().next().unwrap_or_else(|| Err(LinkError::Malformed("no answer to a command".to_owned())))
    }))
}

/// Returns the elements from this place on that one command pushes, at least one.
fn part(run: &[Outbound], from: usize) -> Range<usize> {
    let first = &run[from];
    let mut bytes = 0;
    let goes_along = |message: &&Outbound| {
        bytes += message.body.len();
        message.destination == first.destination && bytes <= MAX_BYTES
    };
    let count = run[from..].iter().take(MAX_COMMANDS).take_while(goes_along).count();
    from..from + count.max(1)
}
